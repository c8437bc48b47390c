import { useMemo } from "react";
import type { Attainment } from "../../api/types";
import { ChartPanel } from "../../charts/ChartPanel";
import { t } from "../../i18n";
import { decimal, percent } from "../../lib/format";
import classes from "./Slas.module.css";

const words = t.slas.attainment;

export function AttainmentCharts({ data }: { data: Attainment }) {
  const { series, total } = data;
  const drawn = useMemo(() => {
    const at = series.map((point) => Date.parse(point.at) / 1000);
    return {
      attainment: [at, series.map((point) => point.attainment)],
      burn: [at, series.map((point) => point.burn_rate)],
    };
  }, [series]);
  const span: [number, number] = [Date.parse(data.from) / 1000, Date.parse(data.to) / 1000];
  const target = total.budget.target;
  return (
    <div className={classes.two}>
      <ChartPanel
        title={words.chart}
        hint={words.chartHint}
        data={drawn.attainment}
        span={span}
        format={percent}
        yMin={Math.min(0.9, target ?? 0.9)}
        yMax={1}
        series={[{ label: words.title, color: "accent" }]}
        limit={target === null ? undefined : { label: words.target, value: target }}
      />
      <ChartPanel
        title={words.burnChart}
        hint={words.burnHint}
        data={drawn.burn}
        span={span}
        format={decimal}
        series={[{ label: words.burnChart, color: "late", kind: "area" }]}
        limit={{ label: words.sustainable, value: 1 }}
      />
    </div>
  );
}
