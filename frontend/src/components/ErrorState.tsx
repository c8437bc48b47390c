import { Button } from "@mantine/core";
import { IconAlertTriangle, IconLock } from "@tabler/icons-react";
import { ApiError } from "../api/errors";
import { t } from "../i18n";
import classes from "./States.module.css";

/** What a role does not allow is no failure, and asking again does not change it. */
export function ErrorState({ error, retry }: { error: Error; retry?: () => void }) {
  const denied = error instanceof ApiError && error.status === 403;
  const Icon = denied ? IconLock : IconAlertTriangle;
  return (
    <div className={classes.state} role="alert">
      <div className={classes.icon} data-tone={denied ? undefined : "bad"}>
        <Icon size={20} stroke={1.6} />
      </div>
      <div className={classes.title}>{denied ? t.errors.denied : t.errors.title}</div>
      <p className={classes.text}>{error.message || t.errors.network}</p>
      {retry && !denied && (
        <Button variant="default" onClick={retry}>
          {t.actions.retry}
        </Button>
      )}
    </div>
  );
}
