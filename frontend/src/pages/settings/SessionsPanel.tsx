import { Badge, Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { FormError } from "../../components/FormError";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { useEndSession, useSessions } from "../../hooks/useAccount";
import { t } from "../../i18n";
import { shortAgent } from "../../lib/agent";
import classes from "./Settings.module.css";

export function SessionsPanel() {
  const sessions = useSessions();
  const end = useEndSession();
  const words = t.settings.sessions;
  return (
    <Panel title={words.title} hint={words.hint}>
      <Loaded query={sessions}>
        {(rows) => (
          <ul className={classes.options} data-testid="sessions">
            {rows.map((row) => {
              const agent = shortAgent(row.agent) || words.unknown;
              return (
                <li key={row.id} className={classes.session}>
                  <div className={classes.optionText}>
                    <span title={row.agent}>
                      {agent}{" "}
                      {row.current && (
                        <Badge variant="light" tt="none">
                          {words.current}
                        </Badge>
                      )}
                    </span>
                    <span className={classes.note}>
                      {row.address} · {words.seen} <TimeAgo at={row.last_seen_at} />
                    </span>
                  </div>
                  {!row.current && (
                    <Button
                      size="compact-sm"
                      variant="default"
                      aria-label={words.endNamed(agent)}
                      onClick={() =>
                        end.mutate(row.id, { onSuccess: () => notifications.show({ message: words.ended }) })
                      }
                    >
                      {words.end}
                    </Button>
                  )}
                </li>
              );
            })}
          </ul>
        )}
      </Loaded>
      <FormError error={end.error} />
    </Panel>
  );
}
