import { expect, it } from "vitest";
import type { Setting } from "../../src/api/types";
import { fromField, rangeOf, shown, toField } from "../../src/pages/settings/options";

const option = (unit: string, low: number, high: number) =>
  ({ unit, low, high, kind: "number", choices: [] }) as unknown as Setting;
const share = option("of 1", 0.1, 1);

it("tells a share in percent and other numbers in their unit", () => {
  expect(shown(share, 0.8)).toBe("80 %");
  expect(rangeOf(share)).toContain("10 %");
  expect(rangeOf(share)).toContain("100 %");
  expect(shown(option("", 1, 9), 7)).toBe("7");
  expect(shown(option("s", 1, 9), 7)).toBe("7 s");
});

it("enters a share in percent without losing a digit", () => {
  for (let hundredths = 10; hundredths <= 100; hundredths++) {
    const value = Number(`${hundredths}e-2`);
    expect(toField(share, value)).toBe(hundredths);
    expect(fromField(share, hundredths)).toBe(value);
  }
  expect(toField(share, null)).toBeNull();
  expect(toField(option("s", 1, 9), 0.8)).toBe(0.8);
  expect(fromField(option("s", 1, 9), 0.8)).toBe(0.8);
});
