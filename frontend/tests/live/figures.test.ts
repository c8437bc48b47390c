import { expect, test } from "vitest";
import { byClass, EMPTY, pickDeployment, summarise } from "../../src/live/figures";
import type { LiveFigures } from "../../src/live/types";
import { figures, window } from "./windows";
import shared from "./windows.json";

test("counts are added, attainment comes from the sums and not from a mean", () => {
  const total = summarise([
    figures({ offered: 9, good: 9, attainment: 1, tokens: 90, good_tokens: 90 }),
    figures({ offered: 1, good: 0, attainment: 0, tokens: 10, late: { queued: 1 } }),
    figures({ offered: 2, good: 1, attainment: 0.5, late: { queued: 1 } }),
  ]);
  expect(total.offered).toBe(12);
  expect(total.attainment).toBeCloseTo(10 / 12, 12);
  expect(total.late).toEqual({ queued: 2 });
  expect([total.tokens, total.good_tokens]).toEqual([100, 90]);
});

test("percentiles, factors and goodput of many windows are those of one longer window", () => {
  const windows = shared.windows as unknown as LiveFigures[];
  const { late, ttft_ms, tpot_ms, factors, ...numbers } = summarise(windows);
  const expected = shared.together;
  expect(late).toEqual(expected.late);
  for (const [name, value] of Object.entries({ ...numbers })) {
    expect(value, name).toBeCloseTo(expected[name as "goodput"], 9);
  }
  for (const q of ["p50", "p95"] as const) {
    expect(ttft_ms[q]).toBeCloseTo(expected.ttft_ms[q], 6);
    expect(tpot_ms[q]).toBeCloseTo(expected.tpot_ms[q], 6);
  }
  for (const name of ["eta", "U", "E", "R", "A"] as const) {
    expect(factors[name], name).toBeCloseTo(expected.factors[name], 9);
  }
});

test("without requests there is no attainment; idle provisioned time is a goodput of zero", () => {
  expect(summarise([]).attainment).toBeNull();
  expect(summarise([]).goodput).toBeNull();
  expect(summarise([]).ttft_ms).toEqual({ p50: null, p95: null });
  const idle = summarise([figures({ provisioned_s: 1 }), figures({ provisioned_s: 1 })]);
  expect(idle.goodput).toBe(0);
  expect(idle.factors).toEqual({ eta: 0, U: 0, E: null, R: null, A: null });
});

test("windows weigh by their seconds, not one each", () => {
  const rows = [
    figures({ good_tokens: 90, provisioned_s: 9 }),
    figures({ good_tokens: 0, provisioned_s: 1 }),
  ];
  expect(summarise(rows).goodput).toBe(9);
});

test("adding does not change what was added", () => {
  const row = figures({ late: { decode: 1 } });
  summarise([row, row]);
  expect(row.late).toEqual({ decode: 1 });
  expect(EMPTY.late).toEqual({});
});

test("a class or deployment missing in a window counts nothing there", () => {
  const windows = [
    window(1, {
      classes: { chat: figures({ offered: 2, good: 2 }) },
      deployments: { dep_1: figures({ offered: 2 }) },
    }),
    window(2, { classes: { batch: figures({ offered: 1 }) } }),
  ];
  expect(byClass(windows).map(([name, f]) => [name, f.offered, f.good])).toEqual([
    ["batch", 1, 0],
    ["chat", 2, 2],
  ]);
  expect(summarise(windows.map(pickDeployment("dep_1"))).offered).toBe(2);
});
