import { expect, test } from "vitest";
import { ago, bytes, decimal, integer, milliseconds, NONE, percent } from "../../src/lib/format";

test("what is not known is a dash, never a zero", () => {
  for (const format of [integer, decimal, percent, milliseconds, bytes]) {
    expect(format(null)).toBe(NONE);
    expect(format(Number.NaN)).toBe(NONE);
  }
});

test.each([
  [1, "100 %"],
  [0.9996, "99.9 %"],
  [0.95, "95 %"],
  [0.8766, "87.7 %"],
  [0, "0 %"],
  [1.08, "108 %"],
])("the ratio %f reads %s", (value, text) => {
  expect(percent(value)).toBe(text);
});

test.each([
  [0, "0 ms"],
  [37.68, "37.7 ms"],
  [312.4, "312 ms"],
  [1000, "1 s"],
  [1240, "1.24 s"],
  [86_400_000, "24 h"],
])("%f ms reads %s", (value, text) => {
  expect(milliseconds(value)).toBe(text);
});

test.each([
  [6, "6"],
  [1.5, "1.5"],
  [12.34, "12.3"],
  [1234, "1,234"],
  [2_500_000, "2.5M"],
])("%f reads %s", (value, text) => {
  expect(decimal(value)).toBe(text);
});

test("bytes are binary", () => {
  expect(bytes(512)).toBe("512 B");
  expect(bytes(256 << 20)).toBe("256 MiB");
  expect(bytes(1.5 * 2 ** 30)).toBe("1.5 GiB");
});

test("a time is told by its largest whole unit", () => {
  const now = Date.parse("2026-11-29T12:00:00Z");
  expect(ago("2026-11-29T11:59:30Z", now)).toBe("30 sec. ago");
  expect(ago("2026-11-29T09:01:00Z", now)).toBe("2 hr. ago");
  expect(ago("2026-12-06T13:00:00Z", now)).toBe("in 7 days");
  expect(ago("2026-12-06T11:59:40Z", now)).toBe("in 7 days");
  expect(ago("2026-11-29T12:59:40Z", now)).toBe("in 60 min.");
  expect(ago(null, now)).toBe(NONE);
});
