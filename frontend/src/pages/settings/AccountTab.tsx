import { Stack } from "@mantine/core";
import { LookPanel } from "./LookPanel";
import { MfaPanel } from "./MfaPanel";
import { PasswordPanel } from "./PasswordPanel";
import { ProfilePanel } from "./ProfilePanel";
import { SessionsPanel } from "./SessionsPanel";
import classes from "./Settings.module.css";

/** What belongs to the person, in whichever tenant they look at. */
export function AccountTab() {
  return (
    <div className={classes.two}>
      <Stack gap="md">
        <ProfilePanel />
        <LookPanel />
        <PasswordPanel />
      </Stack>
      <Stack gap="md">
        <MfaPanel />
        <SessionsPanel />
      </Stack>
    </div>
  );
}
