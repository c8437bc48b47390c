import { expect, test } from "vitest";
import { limitsLine, limitsOf, limitValues, NO_LIMITS } from "../../src/lib/rateLimits";

const NONE = { tokens_per_day: null, tokens_per_month: null, cost_per_day: null, cost_per_month: null };
const SOME = { requests_per_minute: 60, tokens_per_minute: null, max_concurrency: 4, ...NONE };

test("an empty field is no limit, there and back", () => {
  expect(limitValues(SOME)).toEqual({ ...NO_LIMITS, requests_per_minute: 60, max_concurrency: 4 });
  expect(limitsOf(limitValues(SOME))).toEqual(SOME);
  expect(Object.values(limitsOf(NO_LIMITS))).toEqual(Array(7).fill(null));
});

test("only what is set is said", () => {
  expect(limitsLine(SOME)).toBe("60 requests/min · 4 at a time");
  expect(limitsLine(limitsOf(NO_LIMITS))).toBe("");
});
