import type { Node } from "../../api/fleet";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import { bytes, integer } from "../../lib/format";
import classes from "./Fleet.module.css";
import { nodeState, PILL } from "./nodeState";

export function NodePill({ node }: { node: Node }) {
  const state = nodeState(node);
  return <StatePill state={PILL[state]} label={t.fleet.state[state]} />;
}

/** What a node is, in one line; when it was last heard of comes first where that is not now. */
export function NodeFacts({ node }: { node: Node }) {
  const words = t.fleet.node;
  const state = nodeState(node);
  if (state === "waiting") return <span className={classes.facts}>{words.never}</span>;
  return (
    <span className={`${classes.facts} num`}>
      {state === "silent" && (
        <span>
          {words.lastSeen} <TimeAgo at={node.last_seen_at} />
        </span>
      )}
      <span>{words.cpus(integer(node.cpu_count), node.cpu_count)}</span>
      <span>{words.memory(bytes(node.memory_bytes))}</span>
      {node.fault_domain && <span>{words.inDomain(node.fault_domain)}</span>}
      {node.agent_version && <span>{words.version(node.agent_version)}</span>}
    </span>
  );
}
