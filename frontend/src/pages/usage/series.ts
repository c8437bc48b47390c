import type { UsageRow, UsageSums } from "../../api/types";

export const MEASURES = ["tokens", "good_tokens", "requests", "cost"] as const;
export type Measure = (typeof MEASURES)[number];

/** `tokens`: what was read and written, cached or not. */
export function measured(sums: UsageSums, measure: Measure): number {
  if (measure === "tokens") return sums.prompt_tokens + sums.completion_tokens;
  if (measure === "cost") return Number(sums.cost);
  return sums[measure];
}

const DAY_MS = 86_400_000;

/** Hours for up to three days, else days; as the server cuts them, in UTC. */
export function timeOf(from: string, to: string): "hour" | "day" {
  return Date.parse(to) - Date.parse(from) <= 3 * DAY_MS ? "hour" : "day";
}

export interface Stack {
  /** Whose bars: the largest first; null are all the others together. */
  names: ({ key: string; label: string } | null)[];
  /** Unix seconds of every step of the span, also those without usage. */
  at: number[];
  /** A row a name: its own value at each step. */
  values: number[][];
}

const SHOWN = 4;

/** Rows by time and name as bars of one height a step: the four largest names and the rest. */
export function stackOf(
  rows: UsageRow[],
  measure: Measure,
  span: { from: string; to: string },
  time: "hour" | "day",
): Stack {
  const step = time === "hour" ? 3_600_000 : DAY_MS;
  const first = Math.floor(Date.parse(span.from) / step) * step;
  const count = Math.max(1, Math.ceil((Date.parse(span.to) - first) / step));
  const totals = new Map<string, { key: string; label: string; total: number }>();
  for (const row of rows) {
    const name = row.by[1] ?? { key: "", label: "" };
    const known = totals.get(name.key) ?? { key: name.key, label: name.label, total: 0 };
    known.total += measured(row, measure);
    totals.set(name.key, known);
  }
  const largest = [...totals.values()].sort((a, b) => b.total - a.total);
  const shown = largest.slice(0, SHOWN);
  const names: Stack["names"] = shown.map(({ key, label }) => ({ key, label }));
  if (largest.length > SHOWN) names.push(null);
  const values = names.map(() => new Array<number>(count).fill(0));
  for (const row of rows) {
    const i = Math.round((Date.parse(row.by[0]?.key ?? "") - first) / step);
    const own = shown.findIndex((one) => one.key === (row.by[1]?.key ?? ""));
    const line = values[own < 0 ? SHOWN : own];
    if (line && i >= 0 && i < count) line[i] = (line[i] ?? 0) + measured(row, measure);
  }
  return { names, at: Array.from({ length: count }, (_, i) => (first + i * step) / 1000), values };
}

/** What to draw one over the other, the last in front: each bar reaches as high as itself and all after it. */
export function heights(values: number[][]): number[][] {
  const out: number[][] = [];
  for (let i = values.length - 1; i >= 0; i -= 1) {
    const above = out[0];
    out.unshift((values[i] ?? []).map((value, x) => value + (above?.[x] ?? 0)));
  }
  return out;
}
