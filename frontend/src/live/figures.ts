import type { Figures, LiveWindow } from "./types";

const NO_QUANTILES = { p50: null, p95: null };

export const EMPTY: Figures = {
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

export type Pick = (window: LiveWindow) => Figures;

export const pickTotal: Pick = (window) => window.total;
export const pickDeployment =
  (id: string): Pick =>
  (window) =>
    window.deployments[id] ?? EMPTY;

/** An idle second knows only that nothing was busy; one with ended requests knows every factor. */
function known(factors: Figures["factors"]): number {
  return Object.values(factors).filter((value) => value !== null).length;
}

/** What may be added is added; percentiles are not: they are the newest second's that has any. */
export function summarise(rows: Figures[]): Figures {
  const sum: Figures = { ...EMPTY, late: {} };
  const goodputs: number[] = [];
  for (const row of rows) {
    sum.offered += row.offered;
    sum.good += row.good;
    sum.tokens += row.tokens;
    sum.good_tokens += row.good_tokens;
    sum.over_quota += row.over_quota ?? 0;
    for (const [reason, n] of Object.entries(row.late ?? {})) sum.late[reason] = (sum.late[reason] ?? 0) + n;
    if (row.goodput !== null) goodputs.push(row.goodput);
    if (row.ttft_ms.p50 !== null) sum.ttft_ms = row.ttft_ms;
    if (row.tpot_ms.p50 !== null) sum.tpot_ms = row.tpot_ms;
    if (row.fluidity_p5 !== null) sum.fluidity_p5 = row.fluidity_p5;
    if (known(row.factors) >= known(sum.factors)) sum.factors = row.factors;
  }
  sum.attainment = sum.offered ? sum.good / sum.offered : null;
  sum.goodput = goodputs.length ? goodputs.reduce((a, b) => a + b, 0) / goodputs.length : null;
  return sum;
}

/** The classes that saw a request, in name order, each summed over the windows. */
export function byClass(windows: LiveWindow[]): [string, Figures][] {
  const names = new Set(windows.flatMap((w) => Object.keys(w.classes)));
  return [...names]
    .sort()
    .map((name): [string, Figures] => [name, summarise(windows.map((w) => w.classes[name] ?? EMPTY))]);
}
