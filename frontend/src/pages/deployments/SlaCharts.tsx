import { useMemo } from "react";
import type { Deployment, ServiceClass } from "../../api/types";
import { ChartPanel } from "../../charts/ChartPanel";
import { useContractPage } from "../../hooks/useContracts";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { decimal, percent } from "../../lib/format";
import classes from "../overview/Overview.module.css";
import type { FigureSet } from "../overview/useFigures";
import { guaranteedRate } from "./guaranteed";

interface Props {
  deployment: Deployment;
  figures: FigureSet;
  level: ServiceClass;
}

/** Attainment against the class's target, and tokens a second against what the contracts guarantee. */
export function SlaCharts({ deployment, figures, level }: Props) {
  const { current } = useScope();
  const contracts = useContractPage({
    tenant: current?.tenant,
    deployment: deployment.id,
    state: "current",
    page_size: 200,
  });
  const words = t.deployments.metrics;
  const { at, rows, span, seconds } = figures;
  const data = useMemo(
    () => ({
      attainment: [at, rows.map((row) => row.attainment)],
      rate: [at, rows.map((row, i) => row.tokens / (seconds[i] ?? 1))],
    }),
    [at, rows, seconds],
  );
  const rate = contracts.data && guaranteedRate(contracts.data.results);
  const target = level.attainment_target;
  return (
    <div className={classes.charts} data-testid="sla-charts">
      <ChartPanel
        title={words.attainment}
        hint={words.attainmentHint}
        data={data.attainment}
        span={span}
        format={percent}
        yMax={1}
        limit={{ label: words.target(percent(target)), value: target }}
        series={[{ label: words.attainment, color: "accent" }]}
      />
      <ChartPanel
        title={words.rate}
        hint={words.rateHint}
        aside={rate === null ? words.unlimited : undefined}
        data={data.rate}
        span={span}
        format={decimal}
        limit={
          rate === null || rate === undefined
            ? undefined
            : { label: words.guaranteed(decimal(rate)), value: rate }
        }
        series={[{ label: words.tokens, color: "accent", kind: "area" }]}
      />
    </div>
  );
}
