import { Button } from "@mantine/core";
import { IconHistory } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { DeploymentEvent } from "../../api/fleet";
import type { Deployment } from "../../api/types";
import { Changes } from "../../components/Changes";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { useDeploymentEvents } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { integer } from "../../lib/format";
import classes from "./Events.module.css";

const TONES: Record<string, string> = {
  "replica.ready": "good",
  "replica.restart": "bad",
  "replica.end": "warn",
  "decision.refuse": "bad",
  "decision.replace": "warn",
  "decision.drain": "warn",
};

/** A line of time of a deployment: changes, decisions, replicas' readiness, restarts and ends. */
export function DeploymentEvents({ deployment }: { deployment: Deployment }) {
  const events = useDeploymentEvents(deployment.id);
  const words = t.deployments.events;
  return (
    <Panel title={words.title}>
      <Loaded query={events}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.results);
          if (rows.length === 0) {
            return (
              <EmptyState
                icon={<IconHistory size={20} stroke={1.6} />}
                title={words.empty}
                text={words.emptyText}
              />
            );
          }
          return (
            <>
              <ol className={classes.events} data-testid="events">
                {rows.map((event) => (
                  <Event key={event.id} event={event} />
                ))}
              </ol>
              {events.hasNextPage && (
                <Button
                  variant="default"
                  loading={events.isFetchingNextPage}
                  onClick={() => void events.fetchNextPage()}
                >
                  {words.older}
                </Button>
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function whoOf(actor: string): string {
  const words = t.deployments.events;
  if (actor === "scheduler") return words.scheduler;
  return actor === "agent" ? words.agent : (t.audit.actors[actor] ?? actor);
}

function Event({ event }: { event: DeploymentEvent }) {
  const words = t.deployments.events;
  const named = words.words[event.kind];
  const told = event.summary !== named && event.kind.startsWith("decision.") ? event.summary : "";
  return (
    <li className={classes.event} data-tone={TONES[event.kind]}>
      <div className={classes.head}>
        <strong>{named ?? say(event.summary)}</strong>
        <span className={classes.sub}>
          <TimeAgo at={event.at} /> · {words.by(whoOf(event.actor))}
          {event.count > 1 && ` · ${words.times(integer(event.count))}`}
        </span>
        <Explain event={event} />
      </div>
      {told && <p className={classes.text}>{say(told)}</p>}
      {event.reason && event.reason !== told && <p className={classes.text}>{say(event.reason)}</p>}
      {event.before && event.after && event.kind.startsWith("deployment.") && (
        <Changes
          before={event.before}
          after={event.after}
          names={words.fields}
          heads={{ before: t.audit.before, after: t.audit.after }}
        />
      )}
    </li>
  );
}

function Explain({ event }: { event: DeploymentEvent }) {
  const { current } = useScope();
  const words = t.deployments.events;
  if (!event.kind.startsWith("decision.")) return null;
  return (
    <Link
      className={classes.link}
      to="/t/$scope/decisions"
      params={{ scope: current?.slug ?? "" }}
      search={{ decision: event.id, range: "30d" }}
      aria-label={words.explainNamed(say(event.summary))}
    >
      {words.explain}
    </Link>
  );
}
