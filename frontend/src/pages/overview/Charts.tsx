import { useMemo } from "react";
import type { ServiceClass } from "../../api/types";
import { ChartPanel } from "../../charts/ChartPanel";
import { t } from "../../i18n";
import { decimal, milliseconds, percent } from "../../lib/format";
import classes from "./Overview.module.css";
import type { FigureSet } from "./useFigures";

interface Props {
  figures: FigureSet;
  level: ServiceClass | undefined;
}

/** The promised value as a line in the chart, where one deployment (so one promise) is looked at. */
function promise(value: number | null | undefined): { label: string; value: number } | undefined {
  return value ? { label: t.overview.promised(milliseconds(value)), value } : undefined;
}

export function Charts({ figures, level }: Props) {
  const { at, rows, span, seconds } = figures;
  const words = t.overview.charts;
  const data = useMemo(() => {
    const perSecond = (pick: (row: (typeof rows)[number]) => number) =>
      rows.map((row, i) => pick(row) / (seconds[i] ?? 1));
    const column = (pick: (row: (typeof rows)[number]) => number | null) => [at, rows.map(pick)];
    return {
      // Good is drawn over offered: what stays visible of offered is what was late.
      requests: [at, perSecond((r) => r.offered), perSecond((r) => r.good)],
      tokens: [at, perSecond((r) => r.tokens), perSecond((r) => r.good_tokens)],
      ttft: [at, rows.map((r) => r.ttft_ms.p95), rows.map((r) => r.ttft_ms.p50)],
      tpot: [at, rows.map((r) => r.tpot_ms.p95), rows.map((r) => r.tpot_ms.p50)],
      fluidity: column((r) => r.fluidity_p5),
      goodput: column((r) => r.goodput),
    };
  }, [at, rows, seconds]);

  // The p50 is drawn last, above the p95 that it often equals.
  const quantiles = [
    { label: "p95", color: "accent-2" as const },
    { label: "p50", color: "accent" as const },
  ];
  return (
    <div className={classes.charts} data-testid="charts">
      <ChartPanel
        title={words.requests}
        hint={words.requestsHint}
        aside={words.perSecond}
        data={data.requests}
        span={span}
        format={decimal}
        series={[
          { label: words.late, color: "late", kind: "bars" },
          { label: words.good, color: "accent", kind: "bars" },
        ]}
        legendOf={lateOf}
      />
      <ChartPanel
        title={words.goodput}
        hint={words.goodputHint}
        aside={words.tokensPerDevice}
        data={data.goodput}
        span={span}
        format={decimal}
        series={[{ label: words.goodput, color: "accent", kind: "area" }]}
      />
      <ChartPanel
        title={words.ttft}
        hint={words.ttftHint}
        data={data.ttft}
        span={span}
        format={milliseconds}
        series={quantiles}
        limit={promise(level?.base_ms)}
      />
      <ChartPanel
        title={words.tpot}
        hint={words.tpotHint}
        data={data.tpot}
        span={span}
        format={milliseconds}
        series={quantiles}
        limit={promise(level?.tpot_ms)}
      />
      <ChartPanel
        title={words.tokens}
        hint={words.tokensHint}
        aside={words.perSecond}
        data={data.tokens}
        span={span}
        format={decimal}
        series={[
          { label: words.all, color: "accent-2" },
          { label: words.inTime, color: "accent", kind: "area" },
        ]}
      />
      <ChartPanel
        title={words.fluidity}
        hint={words.fluidityHint}
        aside="p5"
        data={data.fluidity}
        span={span}
        format={percent}
        yMin={0.9}
        yMax={1}
        limit={level ? { label: words.floor, value: level.fluidity_floor } : undefined}
        series={[{ label: "p5", color: "accent" }]}
      />
    </div>
  );
}

/** The legend of the stacked bars reads late = offered − good, not the height of the bar behind. */
function lateOf(series: number, values: (number | null)[]): number | null {
  const [offered = null, good = null] = values;
  if (series === 1 || offered === null || good === null) return good;
  return offered - good;
}
