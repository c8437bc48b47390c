import type { PlanLine } from "../../api/fleet";
import { StatePill } from "../../components/StatePill";
import { t } from "../../i18n";

/** The tone of each, as StatePill names them. */
const KINDS: Record<PlanLine["kind"], string> = {
  nothing: "stopped",
  insert: "ready",
  compact: "draining",
  exact: "draining",
};
const STATES: Record<PlanLine["state"], string> = {
  running: "loading",
  done: "good",
  abandoned: "degraded",
  idle: "stopped",
};

export function PlanKind({ kind }: { kind: PlanLine["kind"] }) {
  return <StatePill state={KINDS[kind]} label={t.plans.kinds[kind]} />;
}

/** How far its moves are. One that asked for nothing has no such state. */
export function PlanState({ plan }: { plan: Pick<PlanLine, "state" | "wave" | "waves_total"> }) {
  const words = t.plans;
  if (plan.state === "idle") return null;
  const label =
    plan.state === "running" ? words.progress(plan.wave, plan.waves_total) : words.states[plan.state];
  return <StatePill state={STATES[plan.state]} label={label} />;
}
