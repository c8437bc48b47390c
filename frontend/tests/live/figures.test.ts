import { expect, test } from "vitest";
import { byClass, EMPTY, pickDeployment, summarise } from "../../src/live/figures";
import { figures, window } from "./windows";

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

test("percentiles are the newest known, never averaged", () => {
  const total = summarise([
    figures({ ttft_ms: { p50: 100, p95: 200 } }),
    figures({ ttft_ms: { p50: 300, p95: 900 } }),
    figures({}),
  ]);
  expect(total.ttft_ms).toEqual({ p50: 300, p95: 900 });
  expect(total.tpot_ms.p50).toBeNull();
});

test("without requests there is no attainment; idle provisioned time is a goodput of zero", () => {
  expect(summarise([]).attainment).toBeNull();
  expect(summarise([]).goodput).toBeNull();
  expect(
    summarise([figures({ goodput: 0 }), figures({ goodput: 10 }), figures({ goodput: null })]).goodput,
  ).toBe(5);
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

test("the factors shown are the newest that are fully known, not an idle second's", () => {
  const full = { eta: 0.3, U: 0.7, E: 0.5, R: 0.9, A: 0.95 };
  const idle = { eta: 0, U: 0, E: null, R: null, A: null };
  const rows = [
    figures({ factors: { ...full, U: 0.6 } }),
    figures({ factors: full }),
    figures({ factors: idle }),
  ];
  expect(summarise(rows).factors).toEqual(full);
  expect(summarise([figures({ factors: idle })]).factors).toEqual(idle);
});
