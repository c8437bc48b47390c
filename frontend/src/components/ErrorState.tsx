import { Button } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { t } from "../i18n";
import classes from "./States.module.css";

export function ErrorState({ error, retry }: { error: Error; retry?: () => void }) {
  return (
    <div className={classes.state} role="alert">
      <div className={classes.icon} data-tone="bad">
        <IconAlertTriangle size={20} stroke={1.6} />
      </div>
      <div className={classes.title}>{t.errors.title}</div>
      <p className={classes.text}>{error.message || t.errors.network}</p>
      {retry && (
        <Button variant="default" onClick={retry}>
          {t.actions.retry}
        </Button>
      )}
    </div>
  );
}
