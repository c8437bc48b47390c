import type { ReactNode } from "react";
import { Panel } from "../components/Panel";
import { Chart, type ChartProps } from "./Chart";

interface Props extends ChartProps {
  hint?: string;
  aside?: ReactNode;
}

/** A chart on a surface of its own, under its title. */
export function ChartPanel({ hint, aside, ...chart }: Props) {
  return (
    <Panel title={chart.title} hint={hint} aside={aside}>
      <Chart {...chart} />
    </Panel>
  );
}
