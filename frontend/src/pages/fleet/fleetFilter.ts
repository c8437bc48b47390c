import type { MapGpu, Node } from "../../api/fleet";
import { seatsOf } from "./layout";
import { nodeState } from "./nodeState";

/** Nodes in the state whose name, devices or deployments contain the text; `onNode`: the devices of each. */
export function filterNodes(
  nodes: Node[],
  onNode: ReadonlyMap<string, MapGpu[]> | undefined,
  q: string,
  state: string | undefined,
): Node[] {
  const wanted = q.trim().toLowerCase();
  return nodes.filter((node) => {
    if (state && nodeState(node) !== state) return false;
    if (!wanted) return true;
    const gpus = onNode?.get(node.id) ?? [];
    const names = gpus.flatMap((gpu) => [gpu.name, ...seatsOf(gpu).map((seat) => seat.deployment_name)]);
    return [node.name, ...names].some((name) => name.toLowerCase().includes(wanted));
  });
}

/** Those that ever joined first, by name as people count: gpu-2 before gpu-10. */
export function byName(nodes: Node[]): Node[] {
  const joined = (node: Node) => (node.last_seen_at ? 0 : 1);
  return nodes.toSorted(
    (a, b) => joined(a) - joined(b) || a.name.localeCompare(b.name, undefined, { numeric: true }),
  );
}
