import { t } from "../../i18n";
import { useLive } from "../../live/LiveProvider";
import classes from "./Overview.module.css";

/** Figures that are not of this second say so above themselves, not only in a corner. */
export function StaleBar() {
  const { status, windows } = useLive();
  if (status !== "stale" && status !== "reconnecting") return null;
  return (
    <div className={classes.stale} role="alert">
      {windows.length === 0 ? t.live.none : t.live[status].hint}
    </div>
  );
}
