import type { Attained } from "../../api/types";
import { Meter } from "../../components/Meter";
import { StatTile, StatTiles } from "../../components/StatTile";
import { t } from "../../i18n";
import { decimal, integer, percent } from "../../lib/format";
import classes from "./Slas.module.css";

const words = t.slas.attainment;

/** Where an alert fires by default; the meters end there. */
const FAST = 14.4;
const SLOW = 6;

type Tone = "good" | "late" | "bad";

export function budgetTone(left: number | null): Tone | undefined {
  if (left === null) return undefined;
  if (left < 0) return "bad";
  return left < 0.2 ? "late" : "good";
}

/** What is left of a budget; of one that is spent, how many times over: a share below zero says nothing to people. */
export function budgetText(left: number | null): string {
  return left !== null && left < 0 ? words.overspent(decimal(1 - left)) : percent(left);
}

/** How much of the meter is filled: all of it once more is spent than there was. */
export function budgetFill(left: number | null): number {
  return left !== null && left < 0 ? 1 : (left ?? 0);
}

export function burnTone(rate: number | null, alert: number): Tone | undefined {
  if (rate === null) return undefined;
  if (rate >= alert) return "bad";
  return rate > 1 ? "late" : "good";
}

const inText = { good: "good", late: "warn", bad: "bad" } as const;

function Burn({ label, rate, alert }: { label: string; rate: number | null; alert: number }) {
  const tone = burnTone(rate, alert);
  return (
    <div className={classes.meter}>
      <StatTile
        label={label}
        hint={words.burnMeterHint}
        value={rate === null ? "–" : `${decimal(rate)}×`}
        tone={tone && inText[tone]}
        testId={`burn-${alert}`}
      />
      <Meter
        value={(rate ?? 0) / alert}
        mark={1 / alert}
        tone={tone ?? "good"}
        label={`${label}: ${decimal(rate)}`}
      />
    </div>
  );
}

/** The promise, its error budget, and how fast that burns. */
export function BudgetMeters({ total }: { total: Attained }) {
  const { budget } = total;
  const left = budgetTone(budget.budget_left);
  const target = budget.target;
  const kept = total.attainment !== null && target !== null && total.attainment >= target;
  return (
    <StatTiles testId="budget">
      <div className={classes.meter}>
        <StatTile
          label={words.title}
          hint={t.overview.tiles.attainment.hint}
          value={percent(total.attainment)}
          unit={target === null ? undefined : t.overview.tiles.ofTarget(percent(target))}
          tone={total.attainment === null ? undefined : kept ? "good" : "bad"}
          detail={`${words.good(integer(total.good))} ${t.overview.of(integer(total.offered))}`}
          testId="attained"
        />
        <Meter
          value={total.attainment ?? 0}
          mark={target ?? undefined}
          tone={kept ? "good" : "late"}
          label={`${words.title}: ${percent(total.attainment)}`}
        />
      </div>
      <div className={classes.meter}>
        <StatTile
          label={words.budgetLeft}
          hint={words.budgetHint}
          value={budgetText(budget.budget_left)}
          tone={left && inText[left]}
          detail={words.spent(integer(budget.bad), decimal(budget.allowed))}
          testId="budget-left"
        />
        <Meter
          value={budgetFill(budget.budget_left)}
          tone={left ?? "good"}
          label={`${words.budgetLeft}: ${budgetText(budget.budget_left)}`}
        />
      </div>
      <Burn label={words.burn1} rate={budget.burn_rate_1h} alert={FAST} />
      <Burn label={words.burn6} rate={budget.burn_rate_6h} alert={SLOW} />
    </StatTiles>
  );
}
