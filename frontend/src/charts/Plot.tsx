import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import classes from "./Chart.module.css";
import { type ChartSpec, chartOptions } from "./options";

interface PlotProps {
  spec: ChartSpec;
  data: (number | null)[][];
  height: number;
  onCursor: (index: number | null) => void;
}

/** The drawing of a chart: a module of its own, so that no page waits for it. */
export default function Plot({ spec, data, height, onCursor }: PlotProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ spec, data });
  latest.current = { spec, data };
  const scheme = useComputedColorScheme("light");
  const shape = JSON.stringify([spec.series, spec.limit, scheme, height]);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const options = chartOptions(() => latest.current.spec, element.clientWidth, height, onCursor);
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
  }, [shape, height, onCursor]);

  useEffect(() => {
    plot.current?.setData(data as uPlot.AlignedData);
  }, [data]);

  return <div ref={host} className={classes.plot} style={{ height }} />;
}
