import { lazy, Suspense, useState } from "react";
import classes from "./Chart.module.css";
import { ChartLegend } from "./ChartLegend";
import type { ChartSpec } from "./options";

const Plot = lazy(() => import("./Plot"));

export interface ChartProps extends ChartSpec {
  title: string;
  /** x in unix seconds, then one row of values a series. */
  data: (number | null)[][];
  height?: number;
  legendOf?: (series: number, values: (number | null)[]) => number | null;
}

/** A time series with a live legend; the legend shows the values under the pointer, or the newest. */
export function Chart({ title, data, height = 168, legendOf, ...spec }: ChartProps) {
  const [cursor, setCursor] = useState<number | null>(null);
  return (
    <figure className={classes.figure} aria-label={title}>
      <ChartLegend
        series={spec.series}
        data={data}
        cursor={cursor}
        format={spec.format}
        legendOf={legendOf}
      />
      <Suspense fallback={<div style={{ height }} />}>
        <Plot spec={spec} data={data} height={height} onCursor={setCursor} />
      </Suspense>
    </figure>
  );
}
