import { clock, day, NONE } from "../lib/format";
import classes from "./Chart.module.css";
import type { Series } from "./options";

interface Props {
  series: Series[];
  data: (number | null)[][];
  cursor: number | null;
  format: (value: number | null) => string;
  /** Turns the drawn values of one moment into the one to show for a series. */
  legendOf?: (series: number, values: (number | null)[]) => number | null;
}

/** The day too, where the chart reaches over more than one. */
function withDay(at: number, all: (number | null)[] | undefined): string {
  const first = all?.[0] ?? at;
  const last = all?.at(-1) ?? at;
  return last - first > 86_400 ? `${day(at)}, ${clock(at)}` : clock(at);
}

export function ChartLegend({ series, data, cursor, format, legendOf }: Props) {
  const at = cursor === null ? null : (data[0]?.[cursor] ?? null);
  const newest = (data[0]?.length ?? 0) - 1;
  return (
    <div className={classes.legend}>
      {series.map((s, i) => {
        const row = data[i + 1] ?? [];
        let value = at === null ? row.findLast((v) => v !== null) : row[cursor ?? 0];
        if (legendOf)
          value = legendOf(
            i,
            data.slice(1).map((r) => r[cursor ?? newest] ?? null),
          );
        return (
          <span key={s.label} className={classes.item}>
            <span className={classes.swatch} style={{ background: `var(--b-${s.color})` }} />
            <span className="muted">{s.label}</span>
            <span className="num">{value === null || value === undefined ? NONE : format(value)}</span>
          </span>
        );
      })}
      {at !== null && <span className={`${classes.at} num muted`}>{withDay(at, data[0])}</span>}
    </div>
  );
}
