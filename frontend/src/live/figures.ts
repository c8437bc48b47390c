import { type Histogram, merge, percentile } from "./histogram";
import type { DeviceSeconds, Figures, LiveFigures, LiveWindow } from "./types";

const NO_QUANTILES = { p50: null, p95: null };

export const EMPTY: LiveFigures = {
  offered: 0,
  good: 0,
  late: {},
  over_quota: 0,
  left_early: 0,
  invalid: 0,
  tokens: 0,
  good_tokens: 0,
  goodput: null,
  attainment: null,
  ttft_ms: NO_QUANTILES,
  tpot_ms: NO_QUANTILES,
  fluidity_p5: null,
  factors: { eta: null, U: null, E: null, R: null, A: null },
};

export type Pick = (window: LiveWindow) => LiveFigures;

export const pickTotal: Pick = (window) => window.total;
export const pickDeployment =
  (id: string): Pick =>
  (window) =>
    window.deployments[id] ?? EMPTY;

const SECONDS: (keyof DeviceSeconds)[] = [
  "good_ideal_s",
  "delivered_ideal_s",
  "executed_ideal_s",
  "busy_s",
  "provisioned_s",
];

function ratio(a: number, b: number): number | null {
  return b ? a / b : null;
}

/** η = U·E·R·A of a longer time, from its added seconds: work and its request may end in different windows. */
function factorsOf(s: DeviceSeconds): Figures["factors"] {
  return {
    eta: ratio(s.good_ideal_s, s.provisioned_s),
    U: ratio(s.busy_s, s.provisioned_s),
    E: ratio(s.executed_ideal_s, s.busy_s),
    R: ratio(s.delivered_ideal_s, s.executed_ideal_s),
    A: ratio(s.good_ideal_s, s.delivered_ideal_s),
  };
}

function quantiles(histogram: Histogram): { p50: number | null; p95: number | null } {
  const ms = (q: number) => {
    const us = percentile(histogram, q);
    return us === null ? null : us / 1000;
  };
  return { p50: ms(0.5), p95: ms(0.95) };
}

/** The histogram holds 1 + 10^6 · fluidity; a bucket's middle may lie just above 1. */
function fluidityP5(histogram: Histogram): number | null {
  const value = percentile(histogram, 0.05);
  return value === null ? null : Math.max(0, Math.min(1, (value - 1) / 1e6));
}

/** What several windows come to, exactly as the server derives it from one longer window. */
export function summarise(rows: LiveFigures[]): Figures {
  const sum: Figures = { ...EMPTY, late: {} };
  const seconds = { good_ideal_s: 0, delivered_ideal_s: 0, executed_ideal_s: 0, busy_s: 0, provisioned_s: 0 };
  for (const row of rows) {
    sum.offered += row.offered;
    sum.good += row.good;
    sum.tokens += row.tokens;
    sum.good_tokens += row.good_tokens;
    sum.over_quota += row.over_quota;
    sum.left_early += row.left_early;
    sum.invalid += row.invalid;
    for (const [reason, n] of Object.entries(row.late)) sum.late[reason] = (sum.late[reason] ?? 0) + n;
    for (const name of SECONDS) seconds[name] += row[name] ?? 0;
  }
  sum.attainment = ratio(sum.good, sum.offered);
  sum.goodput = ratio(sum.good_tokens, seconds.provisioned_s);
  sum.factors = factorsOf(seconds);
  sum.ttft_ms = quantiles(merge(rows.map((row) => row.histograms?.ttft)));
  sum.tpot_ms = quantiles(merge(rows.map((row) => row.histograms?.tpot)));
  sum.fluidity_p5 = fluidityP5(merge(rows.map((row) => row.histograms?.fluidity)));
  return sum;
}

/** The classes that saw a request, in name order, each summed over the windows. */
export function byClass(windows: LiveWindow[]): [string, Figures][] {
  const names = new Set(windows.flatMap((w) => Object.keys(w.classes)));
  return [...names]
    .sort()
    .map((name): [string, Figures] => [name, summarise(windows.map((w) => w.classes[name] ?? EMPTY))]);
}
