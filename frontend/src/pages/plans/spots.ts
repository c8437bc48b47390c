import type { PlanChange, PlanSpot } from "../../api/fleet";
import { t } from "../../i18n";

/** Where on which GPU: `gpu-3 · 2g.20gb@4`; on another node than `beside` also on which. */
export function spotText(spot: PlanSpot, beside?: PlanSpot | null): string {
  const elsewhere = !beside || beside.node !== spot.node;
  const at = elsewhere ? `${spot.node_name} ${spot.gpu_name}` : spot.gpu_name;
  return `${at} · ${spot.slot.profile}@${spot.start}`;
}

/** What a change is: a replica that is new, goes, or moves. */
export type ChangeKind = "start" | "stop" | "move";

export function changeKind(change: Pick<PlanChange, "from" | "to">): ChangeKind {
  if (!change.from) return "start";
  return change.to ? "move" : "stop";
}

/** A change in words: from where to where. */
export function changeText(change: Pick<PlanChange, "from" | "to">): string {
  const words = t.plans.change;
  if (!change.from) return change.to ? words.start(spotText(change.to)) : "";
  if (!change.to) return words.stop(spotText(change.from));
  return words.move(spotText(change.from), spotText(change.to, change.from));
}

/** Moves first, then what starts, then what goes. */
export function inOrder<Change extends Pick<PlanChange, "from" | "to">>(changes: Change[]): Change[] {
  const rank = { move: 0, start: 1, stop: 2 };
  return changes.toSorted((a, b) => rank[changeKind(a)] - rank[changeKind(b)]);
}
