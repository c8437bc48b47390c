import type { Alert } from "../api/types";
import { say, t } from "../i18n";
import classes from "./FiringList.module.css";
import { StatePill } from "./StatePill";
import { TimeAgo } from "./TimeAgo";

/** What is wrong now, a line each. */
export function FiringList({ alerts }: { alerts: Alert[] }) {
  return (
    <ul className={classes.list}>
      {alerts.map((alert) => (
        <li key={alert.id} className={classes.alert}>
          <StatePill state={alert.severity} label={t.settings.routes.rules[alert.rule] ?? alert.title} />
          <span className={classes.text}>{say(alert.summary)}</span>
          <span className={classes.since}>
            {t.settings.firing.since} <TimeAgo at={alert.since} />
          </span>
        </li>
      ))}
    </ul>
  );
}
