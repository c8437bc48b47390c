import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import classes from "./Chart.module.css";
import { ChartLegend } from "./ChartLegend";
import { type ChartSpec, chartOptions } from "./options";

export interface ChartProps extends ChartSpec {
  title: string;
  /** x in unix seconds, then one row of values a series. */
  data: (number | null)[][];
  height?: number;
  legendOf?: (series: number, values: (number | null)[]) => number | null;
}

/** A time series with a live legend; the legend shows the values under the pointer, or the newest. */
export function Chart({ title, data, height = 168, legendOf, ...spec }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ spec, data });
  latest.current = { spec, data };
  const [cursor, setCursor] = useState<number | null>(null);
  const scheme = useComputedColorScheme("light");
  const shape = JSON.stringify([spec.series, spec.limit, scheme, height]);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const options = chartOptions(() => latest.current.spec, element.clientWidth, height, setCursor);
    const made = new uPlot(options, latest.current.data as uPlot.AlignedData, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // `shape` stands for everything that makes the plot another one.
  }, [shape, height]);

  useEffect(() => {
    plot.current?.setData(data as uPlot.AlignedData);
  }, [data]);

  return (
    <figure className={classes.figure} aria-label={title}>
      <ChartLegend
        series={spec.series}
        data={data}
        cursor={cursor}
        format={spec.format}
        legendOf={legendOf}
      />
      <div ref={host} className={classes.plot} style={{ height }} />
    </figure>
  );
}
