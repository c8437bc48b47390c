import type { Node } from "../../api/fleet";

export function DrainProgress({ node: _ }: { node: Node }) {
  return null;
}
