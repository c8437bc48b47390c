import type { PlanLine } from "../../api/fleet";
import { Facts } from "../../components/Facts";
import { t } from "../../i18n";
import { decimal, integer, percent } from "../../lib/format";

/** The objective against the bound, and the fleet before and after. */
export function PlanFigures({ plan }: { plan: PlanLine }) {
  const words = t.plans.figures;
  const { before, after } = plan;
  const change = (format: (value: number) => string, old: number | undefined, now: number | undefined) =>
    old === undefined || now === undefined ? format(Number.NaN) : words.change(format(old), format(now));
  return (
    <Facts
      rows={[
        { ...words.objective, value: words.gpus(decimal(plan.objective)) },
        { ...words.bound, value: words.gpus(decimal(plan.bound)) },
        { ...words.gap, value: percent(plan.gap) },
        { ...words.inUse, value: change(integer, before.gpus_in_use, after.gpus_in_use) },
        { ...words.stranded, value: change(integer, before.stranded_units, after.stranded_units) },
        { ...words.fragmentation, value: change(percent, before.fragmentation, after.fragmentation) },
        {
          ...words.goodput,
          value: words.served(change(decimal, before.goodput, after.goodput), decimal(after.goodput_wanted)),
        },
        { ...words.seconds, value: `${decimal(plan.seconds)} s` },
      ]}
    />
  );
}
