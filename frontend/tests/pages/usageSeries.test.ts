import { expect, test } from "vitest";
import type { UsageRow } from "../../src/api/types";
import { deeper } from "../../src/pages/usage/drill";
import { heights, stackOf, timeOf } from "../../src/pages/usage/series";

const row = (at: string, key: string, requests: number) =>
  ({
    key: at,
    label: at,
    by: [
      { group: "day", key: at, label: at },
      { group: "key", key, label: key },
    ],
    requests,
  }) as UsageRow;
const SPAN = { from: "2026-11-28T10:00:00Z", to: "2026-11-30T12:00:00Z" };

test("every step of the span is there, the four largest are apart, and nothing is lost", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const rows = names.map((key, i) => row("2026-11-29T00:00:00+00:00", key, i + 1));
  const stack = stackOf([...rows, row("2026-11-30T00:00:00+00:00", "a", 100)], "requests", SPAN, "day");
  expect(stack.at.map((s) => new Date(s * 1000).toISOString().slice(0, 10))).toEqual([
    "2026-11-28",
    "2026-11-29",
    "2026-11-30",
  ]);
  expect(stack.names.map((one) => one?.key ?? null)).toEqual(["a", "f", "e", "d", null]);
  expect(stack.values).toEqual([
    [0, 1, 100],
    [0, 6, 0],
    [0, 5, 0],
    [0, 4, 0],
    [0, 5, 0],
  ]);
  expect(heights(stack.values)[0]).toEqual([0, 21, 100]);
});

test("hours up to three days, then days", () => {
  expect(timeOf("2026-11-27T12:00:00Z", "2026-11-30T12:00:00Z")).toBe("hour");
  expect(timeOf("2026-11-27T11:59:00Z", "2026-11-30T12:00:00Z")).toBe("day");
});

test("a row opens one level deeper: its filter or its time", () => {
  expect(deeper("tenant", { key: "ten_1" })).toEqual({ by: "deployment", tenant: "ten_1" });
  expect(deeper("hour", { key: "2026-11-30T07:00:00+00:00" })).toEqual({
    by: undefined,
    from: "2026-11-30T07:00:00.000Z",
    to: "2026-11-30T08:00:00.000Z",
    range: undefined,
  });
});
