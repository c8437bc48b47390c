import { expect, test } from "vitest";
import { limitsLine, limitsOf, limitValues, NO_LIMITS } from "../../src/lib/rateLimits";

const SOME = { requests_per_minute: 60, tokens_per_minute: null, max_concurrency: 4 };

test("an empty field is no limit, there and back", () => {
  expect(limitValues(SOME)).toEqual({ requests_per_minute: 60, tokens_per_minute: "", max_concurrency: 4 });
  expect(limitsOf(limitValues(SOME))).toEqual(SOME);
  expect(Object.values(limitsOf(NO_LIMITS))).toEqual([null, null, null]);
});

test("only what is set is said", () => {
  expect(limitsLine(SOME)).toBe("60 requests/min · 4 at a time");
  expect(limitsLine(limitsOf(NO_LIMITS))).toBe("");
});
