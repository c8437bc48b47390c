import type { Node } from "../../api/fleet";
import { nodeState } from "./nodeState";

/** Nodes in the state whose name, devices or deployments contain the text. */
export function filterNodes(nodes: Node[], q: string, state: string | undefined): Node[] {
  const wanted = q.trim().toLowerCase();
  return nodes.filter((node) => {
    if (state && nodeState(node) !== state) return false;
    const names = node.devices.flatMap((d) => [d.name, ...d.seats.map((s) => s.deployment_name)]);
    return [node.name, ...names].some((name) => name.toLowerCase().includes(wanted));
  });
}
