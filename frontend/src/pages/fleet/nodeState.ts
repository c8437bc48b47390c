import type { Node } from "../../api/fleet";

/** What one sees of a node, the worst first: a node that never joined is awaited, not lost. */
export type NodeState = "waiting" | "silent" | "draining" | "drained" | "cordoned" | "connected";
export const NODE_STATES: readonly NodeState[] = [
  "connected",
  "silent",
  "waiting",
  "cordoned",
  "draining",
  "drained",
];

type Seen = Pick<Node, "online" | "last_seen_at" | "cordoned" | "drain">;

export function nodeState(node: Seen): NodeState {
  if (!node.last_seen_at) return "waiting";
  if (!node.online) return "silent";
  if (node.drain) return node.drain.state === "done" ? "drained" : "draining";
  return node.cordoned ? "cordoned" : "connected";
}

/** The tone of each, as StatePill names them. */
export const PILL: Record<NodeState, string> = {
  connected: "ready",
  silent: "lost",
  waiting: "waiting",
  cordoned: "degraded",
  draining: "draining",
  drained: "stopped",
};
