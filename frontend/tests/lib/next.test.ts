import { describe, expect, it } from "vitest";
import { safeNext } from "../../src/lib/next";

describe("safeNext", () => {
  it.each(["/", "/t/acme/keys", "/t/acme/requests?state=late&from=2026-01-01T00:00:00Z", "/t/a#b"])(
    "keeps %s",
    (path) => {
      expect(safeNext(path)).toBe(path);
    },
  );
  it.each([
    undefined,
    "",
    "t/acme",
    "//evil.test",
    "/\\evil.test",
    "/\t/evil.test",
    "\\\\evil.test",
    "https://evil.test",
    "javascript:alert(1)",
    " /x",
  ])("refuses %s", (path) => {
    expect(safeNext(path)).toBe("/");
  });
});
