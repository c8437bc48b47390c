import type { MapGpu } from "../../api/fleet";
import { Hint } from "../../components/Hint";
import { StatePill } from "../../components/StatePill";
import { say, t } from "../../i18n";
import classes from "./GpuPicture.module.css";

/** The tone of each, as StatePill names them. */
const TONES: Record<MapGpu["health"], string> = {
  healthy: "good",
  suspect: "warning",
  draining: "draining",
  fenced: "failed",
  probation: "waiting",
};

/** How a GPU is, and why where it is not well. */
export function HealthPill({ gpu }: { gpu: Pick<MapGpu, "health" | "health_reason"> }) {
  const { health, health_reason: reason } = gpu;
  return (
    <span className={classes.health} data-testid="health" data-health={health}>
      <StatePill state={TONES[health]} label={t.fleet.health.states[health]} />
      {health !== "healthy" && reason && <Hint text={say(reason)} />}
    </span>
  );
}
