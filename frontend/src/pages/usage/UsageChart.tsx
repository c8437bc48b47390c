import { type ReactNode, useMemo } from "react";
import type { UsageSummary } from "../../api/types";
import { Chart } from "../../charts/Chart";
import type { Series } from "../../charts/options";
import type { Ink } from "../../charts/palette";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import type { Asked } from "../../components/StaleNotice";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import { cost } from "../../lib/money";
import { heights, type Measure, stackOf } from "./series";
import classes from "./Usage.module.css";

const words = t.usage;
const INKS: Ink[] = ["accent", "accent-2", "late", "good", "faint"];

interface Props {
  asked: Asked<UsageSummary>;
  measure: Measure;
  span: { from: string; to: string };
  time: "hour" | "day";
  currency: string;
  children: ReactNode;
}

/** Usage an hour or a day, told apart by what the table is grouped by. */
export function UsageChart({ asked, children, ...drawn }: Props) {
  return (
    <Panel title={words.chart[drawn.time]} hint={words.chartHint}>
      <div className={classes.by}>{children}</div>
      <Loaded query={asked}>{(data) => <Bars data={data} {...drawn} />}</Loaded>
    </Panel>
  );
}

function Bars({
  data,
  measure,
  span,
  time,
  currency,
}: Omit<Props, "asked" | "children"> & { data: UsageSummary }) {
  const { from, to } = span;
  const stack = useMemo(
    () => stackOf(data.rows, measure, { from, to }, time),
    [data.rows, measure, from, to, time],
  );
  const rows = useMemo(() => [stack.at, ...heights(stack.values)], [stack]);
  const series = stack.names.map(
    (name, i): Series => ({
      label: name ? name.label || name.key || words.unknown : words.others,
      color: INKS[i] ?? "faint",
      kind: "bars",
    }),
  );
  const step = time === "hour" ? 3600 : 86_400;
  const first = stack.at[0] ?? 0;
  return (
    <Chart
      title={words.chart[time]}
      data={rows}
      height={190}
      span={[first - step / 2, (stack.at.at(-1) ?? first) + step / 2]}
      format={(value) => (measure === "cost" ? cost(value, currency) : integer(value))}
      series={series}
      legendOf={(i, values) => (values[i] ?? 0) - (values[i + 1] ?? 0)}
    />
  );
}
