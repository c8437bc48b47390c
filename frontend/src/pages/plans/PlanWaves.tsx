import { Progress } from "@mantine/core";
import { IconCircleCheck, IconCircleDashed, IconLoader2 } from "@tabler/icons-react";
import type { Plan, PlanWave } from "../../api/fleet";
import { TimeAgo } from "../../components/TimeAgo";
import { say, t } from "../../i18n";
import classes from "./Plans.module.css";

type Step = "done" | "running" | "waiting" | "dropped";
const ICONS = {
  done: IconCircleCheck,
  running: IconLoader2,
  waiting: IconCircleDashed,
  dropped: IconCircleDashed,
} as const;

/** How far the plan is: of each wave first the starts, then, once those are ready, the stops. */
export function PlanWaves({ plan }: { plan: Plan }) {
  const words = t.plans.waves;
  if (plan.waves.length === 0) return <p className={classes.none}>{words.none}</p>;
  const step = (number: number): Step => {
    if (number < plan.wave) return "done";
    if (plan.state !== "running") return "dropped";
    return number === plan.wave ? "running" : "waiting";
  };
  return (
    <>
      <Progress
        value={(100 * plan.wave) / plan.waves.length}
        size={6}
        radius="xl"
        aria-label={t.plans.progress(plan.wave, plan.waves.length)}
      />
      <ol className={classes.list} data-testid="plan-waves">
        {plan.waves.map((wave, number) => (
          <Wave
            key={number}
            wave={wave}
            number={number + 1}
            step={step(number)}
            since={number === plan.wave ? plan.wave_since : null}
            names={namesOf(plan)}
          />
        ))}
      </ol>
      {plan.ended_why && <p className={classes.none}>{say(plan.ended_why)}</p>}
    </>
  );
}

/** Whose replica it is, by its id. */
function namesOf(plan: Plan): Map<string, string> {
  return new Map(plan.changes.map((change) => [change.replica, change.deployment_name || change.deployment]));
}

interface WaveProps {
  wave: PlanWave;
  number: number;
  step: Step;
  since: string | null | undefined;
  names: Map<string, string>;
}

function Wave({ wave, number, step, since, names }: WaveProps) {
  const words = t.plans.waves;
  const Icon = ICONS[step];
  const told = (all: string[]) => [...new Set(all)].join(", ");
  const starts = told(wave.starts.map((start) => start.deployment_name || start.deployment));
  const stops = told(wave.stops.map(({ replica }) => names.get(replica) ?? replica));
  return (
    <li className={classes.row} data-step={step}>
      <Icon size={16} stroke={1.7} role="img" aria-label={words.steps[step]} className={classes[step]} />
      <span className={classes.rowText}>
        <strong>
          {words.wave(number)} · {words.steps[step]}
        </strong>
        {step === "running" && since && (
          <span className={classes.note}>
            {words.since} <TimeAgo at={since} />
          </span>
        )}
        {wave.starts.length > 0 && (
          <span className={classes.note}>{words.starts(wave.starts.length, starts)}</span>
        )}
        {wave.stops.length > 0 && (
          <span className={classes.note}>{words.stops(wave.stops.length, stops)}</span>
        )}
      </span>
    </li>
  );
}
