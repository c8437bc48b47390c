import { IconCircleCheck, IconX } from "@tabler/icons-react";
import type { Plan } from "../../api/fleet";
import { say, t } from "../../i18n";
import { decimal, integer } from "../../lib/format";
import classes from "./Plans.module.css";

/** The ways that were compared; of each that was not taken, why not. */
export function PlanWays({ plan }: { plan: Plan }) {
  const words = t.plans.ways;
  if (plan.candidates.length === 0) return <p className={classes.none}>{words.none}</p>;
  // Left alone is what placing comes to where there is nothing to place.
  const kind = plan.kind === "nothing" ? "insert" : plan.kind;
  const taken = plan.candidates.findIndex((way) => [kind, plan.kind].includes(way.kind) && !way.why_not);
  return (
    <ul className={classes.list} data-testid="plan-ways">
      {plan.candidates.map((way, number) => {
        const chosen = number === taken;
        const Icon = chosen ? IconCircleCheck : IconX;
        return (
          <li key={way.kind} className={classes.way} data-chosen={chosen || undefined}>
            <span className={classes.wayHead}>
              <strong>{t.plans.kinds[way.kind]}</strong>
              <span className={chosen ? classes.good : classes.bad}>
                <Icon size={15} aria-hidden="true" />
                {chosen ? words.taken : words.notTaken}
              </span>
            </span>
            <span className={`${classes.note} num`}>
              {words.figures(integer(way.gpus), decimal(way.objective), integer(way.moves), way.moves)}
              {way.short_of_guarantee > 0 && ` · ${words.short(decimal(way.short_of_guarantee))}`}
            </span>
            {way.moves > 0 && (
              <span className={`${classes.note} num`}>
                {words.worth(decimal(way.gain_gpu_s), decimal(way.cost_gpu_s), decimal(way.net_gpu_s))}
              </span>
            )}
            {way.why_not && <span className={classes.note}>{say(way.why_not)}</span>}
          </li>
        );
      })}
    </ul>
  );
}
