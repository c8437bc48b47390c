import { Progress } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Drain, Node } from "../../api/fleet";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { integer } from "../../lib/format";
import classes from "./Drain.module.css";

/** How far the drain of a node is: what has left, and each replica that is still there with what it waits for. */
export function DrainProgress({ node }: { node: Node }) {
  const { drain } = node;
  if (!drain) return null;
  const words = t.fleet.drain;
  const gone = drain.total - drain.left;
  const share = drain.state === "done" ? 100 : (100 * gone) / Math.max(1, drain.total);
  return (
    <section
      className={classes.drain}
      data-state={drain.state}
      aria-label={words.label(node.name)}
      data-testid="drain"
    >
      <div className={`${classes.head} num`} role="status">
        <strong>{words.states[drain.state]}</strong>
        <span>{words.progress(gone, drain.total)}</span>
      </div>
      <Progress value={share} size={6} radius="xl" aria-label={words.label(node.name)} />
      {drain.reason && drain.state !== "done" && <p className={classes.reason}>{say(drain.reason)}</p>}
      <Leaving drain={drain} />
      <p className={classes.by}>
        <TimeAgo at={drain.requested_at} /> · {words.by(drain.requested_by)}
      </p>
    </section>
  );
}

function Leaving({ drain }: { drain: Drain }) {
  const { current } = useScope();
  const words = t.fleet.drain;
  if (drain.moves.length === 0) return null;
  return (
    <ul className={classes.moves}>
      {drain.moves.map((move) => (
        <li key={move.replica} data-state={move.state}>
          <Link
            to="/t/$scope/deployments/$id"
            params={{ scope: current?.slug ?? "", id: move.deployment }}
            search={{ tab: "replicas" }}
          >
            {move.deployment_name}
          </Link>
          <span>
            {words.moves[move.state]}
            {move.running !== null && ` · ${words.running(integer(move.running))}`}
            {move.successor &&
              ` · ${move.successor_node ? words.successor(move.successor_node) : words.successorPending}`}
          </span>
          {move.reason && <span className={classes.reason}>{say(move.reason)}</span>}
        </li>
      ))}
    </ul>
  );
}
