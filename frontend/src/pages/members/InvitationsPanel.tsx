import { Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { Invitation } from "../../api/types";
import { FormError } from "../../components/FormError";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useInvitations, useResendInvitation, useRevokeInvitation } from "../../hooks/useInvitations";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import type { InvitationLink } from "./LinkModal";
import classes from "./Members.module.css";

const WAITING = new Set(["open", "expired"]);
const PILLS: Record<string, string> = { open: "invited", expired: "expired" };

interface Props {
  onLink: (link: InvitationLink) => void;
}

function Row({ invitation, onLink }: Props & { invitation: Invitation }) {
  const resend = useResendInvitation();
  const revoke = useRevokeInvitation();
  const words = t.members;
  const { email } = invitation;
  return (
    <li className={classes.invitation}>
      <span className={classes.text}>
        <span className={classes.name}>{email}</span>
        <span className={classes.email}>
          {t.roles[invitation.role]} · {invitation.state === "expired" ? words.ended : words.expires}{" "}
          <TimeAgo at={invitation.expires_at} />
          {invitation.invited_by && ` · ${words.by(invitation.invited_by)}`}
        </span>
      </span>
      <StatePill
        state={PILLS[invitation.state] ?? invitation.state}
        label={words.states[invitation.state] ?? invitation.state}
      />
      <Group gap={6}>
        <Button
          size="compact-sm"
          variant="default"
          loading={resend.isPending}
          aria-label={words.resendNamed(email)}
          onClick={() =>
            resend.mutate(
              { shown: invitation, body: undefined },
              { onSuccess: ({ url, mailed }) => onLink({ email, url, mailed }) },
            )
          }
        >
          {words.resend}
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          loading={revoke.isPending}
          aria-label={words.revokeNamed(email)}
          onClick={() =>
            revoke.mutate(
              { shown: invitation, body: undefined },
              {
                onSuccess: () => notifications.show({ message: words.revoked(email) }),
              },
            )
          }
        >
          {words.revoke}
        </Button>
      </Group>
      <FormError error={resend.error ?? revoke.error} />
    </li>
  );
}

/** Invitations that nobody took up yet; nothing where there are none. */
export function InvitationsPanel({ onLink }: Props) {
  const { current, canChange } = useScope();
  const invitations = useInvitations(current?.tenant, canChange);
  const rows = invitations.data?.results.filter((one) => WAITING.has(one.state));
  if (rows?.length === 0) return null;
  return (
    <div style={{ marginTop: 16 }}>
      <Panel title={t.members.invitations} hint={t.members.invitationsHint}>
        <Loaded query={invitations}>
          {() => (
            <ul className={classes.invitations} data-testid="invitations">
              {(rows ?? []).map((one) => (
                <Row key={one.id} invitation={one} onLink={onLink} />
              ))}
            </ul>
          )}
        </Loaded>
      </Panel>
    </div>
  );
}
