import { Stack } from "@mantine/core";
import type { Alert } from "../../api/types";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useFiring } from "../../hooks/useAlerts";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { AlertRoutes } from "./AlertRoutes";
import classes from "./Settings.module.css";

function Firing({ alert }: { alert: Alert }) {
  return (
    <li className={classes.alert}>
      <StatePill state={alert.severity} label={t.settings.routes.rules[alert.rule] ?? alert.title} />
      <span className={classes.alertText}>{alert.summary}</span>
      <span className={classes.note}>
        {t.settings.firing.since} <TimeAgo at={alert.since} />
      </span>
    </li>
  );
}

/** What is wrong now, and who is told of it. */
export function AlertsTab() {
  const { current } = useScope();
  const firing = useFiring(current?.tenant);
  return (
    <Stack gap="md">
      <Panel title={t.settings.firing.title} hint={t.settings.firing.hint}>
        <Loaded query={firing}>
          {(page) =>
            page.results.length === 0 ? (
              <p className="muted">{t.settings.firing.none}</p>
            ) : (
              <ul className={classes.options}>
                {page.results.map((alert) => (
                  <Firing key={alert.id} alert={alert} />
                ))}
              </ul>
            )
          }
        </Loaded>
      </Panel>
      <AlertRoutes />
    </Stack>
  );
}
