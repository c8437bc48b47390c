import { describe, expect, it } from "vitest";
import { piecesOf, searchLines, toneOf } from "../../src/pages/deployments/logLines";

describe("searching lines", () => {
  const lines = ["Loading weights", "ready", "LOADED in 3 s"];

  it("finds in any case, and all without a text", () => {
    expect(searchLines(lines, " load ")).toEqual(["Loading weights", "LOADED in 3 s"]);
    expect(searchLines(lines, "")).toBe(lines);
  });

  it("marks each place and loses no letter", () => {
    const pieces = piecesOf("a-A-b-a", "a");
    expect(pieces.map((p) => p.text).join("")).toBe("a-A-b-a");
    expect(pieces.filter((p) => p.hit).map((p) => p.text)).toEqual(["a", "A", "a"]);
  });
});

it("tells errors from warnings", () => {
  expect(toneOf('{"level": "error", "event": "x"}')).toBe("bad");
  expect(toneOf("Traceback (most recent call last):")).toBe("bad");
  expect(toneOf("WARNING: slow")).toBe("warn");
  expect(toneOf("no warnings, no errors")).toBeUndefined();
  expect(toneOf("INFO uvicorn.error Started server process")).toBeUndefined();
});
