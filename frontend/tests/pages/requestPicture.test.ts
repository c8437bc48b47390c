import { expect, test } from "vitest";
import type { ExplainedRequest } from "../../src/api/types";
import { ChatError } from "../../src/lib/chat";
import { stepsOf } from "../../src/pages/overview/steps";
import { failureOf } from "../../src/pages/playground/failure";
import { pictureOf, roundStep } from "../../src/pages/requests/phases";
import { ttftLimit } from "../../src/pages/slas/promise";

function request(limitUs: number | null, e2eUs: number | null = null) {
  return {
    timeline: [
      { phase: "queued", start_ms: 0, end_ms: 100 },
      { phase: "decode", start_ms: 100, end_ms: 500 },
    ],
    record: { ttft_limit_us: limitUs, e2e_limit_us: e2eUs },
  } as unknown as ExplainedRequest;
}

test("bars and the promised moment share one axis", () => {
  const picture = pictureOf(request(1_000_000));
  expect(picture.endMs).toBeCloseTo(1060);
  expect(picture.bars[1]).toMatchObject({
    phase: "decode",
    left: 100 / picture.endMs,
    width: 400 / picture.endMs,
  });
  expect(picture.marks).toEqual([{ kind: "ttft", ms: 1000, left: 1000 / picture.endMs }]);
});

test("a promise far away does not shrink what happened", () => {
  const picture = pictureOf(request(null, 86_400_000_000));
  expect(picture.endMs).toBeCloseTo(520);
  expect(picture.marks).toEqual([]);
  expect(picture.ticks.map((one) => one.ms)).toEqual([0, 100, 200, 300, 400, 500]);
  expect([roundStep(0.3), roundStep(7), roundStep(20)]).toEqual([0.5, 10, 20]);
});

test("the first token's limit grows with new prompt tokens beyond the free ones", () => {
  const level = { base_ms: 200, free_prompt_tokens: 4000, prefill_tokens_per_s: 40_000 };
  expect([ttftLimit(level, 4000), ttftLimit(level, 44_000)]).toEqual([200, 1200]);
  expect(ttftLimit({ ...level, base_ms: null }, 1)).toBeNull();
});

test("an error of a request says when to come back", () => {
  const failure = failureOf(new ChatError("Over the limit", 429, "rate_limit_exceeded", 7), 1000);
  expect(failure).toMatchObject({ kind: "limit", retryAt: 8000 });
  expect(failureOf(new TypeError("Failed to fetch")).kind).toBe("network");
});

test("a viewer is shown no step that only others can take", () => {
  const known = { models: 1, deployments: 0, contracts: 0, keys: 0 };
  const names = (who: Parameters<typeof stepsOf>[1]) => stepsOf(known, who).map((one) => one.id);
  expect(names({ operator: false, canChange: false, canUse: false })).toEqual([]);
  expect(names({ operator: false, canChange: false, canUse: true })).toEqual(["key", "request"]);
  expect(stepsOf(known, { operator: true, canChange: true, canUse: true })[0]).toMatchObject({
    id: "model",
    done: true,
  });
});
