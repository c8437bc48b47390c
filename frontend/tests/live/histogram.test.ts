import { expect, test } from "vitest";
import { type Histogram, merge, percentile } from "../../src/live/histogram";

/** The bucket of a value, as the definition counts it. */
function bucketOf(us: number): number {
  return us < 1 ? 0 : Math.floor(Math.log(us) / Math.log(1.02)) + 1;
}

function histogramOf(values: number[]): Histogram {
  return merge(values.map((v) => [[bucketOf(v), 1]] as Histogram));
}

test("a percentile of the sum is within 1 % of the value at its rank, whatever the split", () => {
  const values = Array.from({ length: 1000 }, (_, i) => 1000 * 1.005 ** ((i * 617) % 1000));
  const sorted = [...values].sort((a, b) => a - b);
  const parts = [values.slice(0, 10), values.slice(10, 400), [], values.slice(400)].map(histogramOf);
  for (const q of [0.001, 0.05, 0.5, 0.95, 0.999, 1]) {
    const exact = sorted[Math.ceil(q * 1000) - 1] ?? Number.NaN;
    const found = percentile(merge(parts), q) ?? Number.NaN;
    expect(Math.abs(found / exact - 1)).toBeLessThan(0.0101);
  }
});

test("one slow request in twenty is the p95 of none but the p96", () => {
  const histogram = merge([[[100, 19]], undefined, [[400, 1]]]);
  expect(histogram).toEqual([
    [100, 19],
    [400, 1],
  ]);
  expect(percentile(histogram, 0.95)).toBeCloseTo(1.02 ** 99.5, 9);
  expect(percentile(histogram, 0.96)).toBeCloseTo(1.02 ** 399.5, 6);
});

test("nothing has no percentile, and below a microsecond is zero", () => {
  expect(percentile([], 0.5)).toBeNull();
  expect(percentile(merge([undefined, []]), 0.5)).toBeNull();
  expect(percentile([[0, 3]], 0.5)).toBe(0);
});
