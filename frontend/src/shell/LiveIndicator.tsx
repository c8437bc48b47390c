import { Tooltip } from "@mantine/core";
import { t } from "../i18n";
import { useLive } from "../live/LiveProvider";
import classes from "./LiveIndicator.module.css";

/** Says whether what is shown is of this second. */
export function LiveIndicator({ compact = false }: { compact?: boolean }) {
  const { status } = useLive();
  const words = t.live[status];
  return (
    <Tooltip label={words.hint}>
      <span className={classes.live} data-status={status} role="status" tabIndex={0} data-testid="live">
        <span className={classes.dot} aria-hidden="true" />
        <span data-compact={compact || undefined}>{words.label}</span>
      </span>
    </Tooltip>
  );
}
