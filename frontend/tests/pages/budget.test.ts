import type uPlot from "uplot";
import { expect, test } from "vitest";
import { BINARY_STEPS, chartOptions } from "../../src/charts/options";
import { bytes } from "../../src/lib/format";
import { budgetFill, budgetText } from "../../src/pages/slas/BudgetMeters";

test.each([
  [null, "–", 0],
  [0.25, "25 %", 0.25],
  [0, "0 %", 0],
  [-17.18, "spent 18.2× over", 1],
])("a budget of which %s is left reads %s", (left, text, fill) => {
  expect(budgetText(left)).toBe(text);
  expect(budgetFill(left)).toBe(fill);
});

test("the steps of memory are whole powers of two", () => {
  expect(BINARY_STEPS.filter((step) => step >= 1024 ** 3 && step <= 8 * 1024 ** 3).map(bytes)).toEqual([
    "1 GiB",
    "2 GiB",
    "4 GiB",
    "8 GiB",
  ]);
  const spec = { series: [], format: bytes, span: [0, 1] as [number, number], steps: BINARY_STEPS };
  const axes = chartOptions(
    () => spec,
    300,
    100,
    () => {},
  ).axes as uPlot.Axis[];
  expect(axes[1]?.incrs).toBe(BINARY_STEPS);
  expect(axes[0]?.incrs).toBeUndefined();
});
