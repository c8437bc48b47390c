import { expect, test } from "vitest";
import { partsOf, spansOf } from "../../src/lib/answer";

test("plain text is one part, as it was written", () => {
  expect(partsOf("The capital of France is Paris.")).toEqual([
    { kind: "prose", text: "The capital of France is Paris." },
  ]);
  expect(partsOf("")).toEqual([]);
});

test("a thought is apart from the answer, and open until it ends", () => {
  expect(partsOf("<think>\nHm.")).toEqual([{ kind: "thought", text: "Hm.", open: true }]);
  expect(partsOf("<think>\nHm.\n</think>\n\nYes.")).toEqual([
    { kind: "thought", text: "Hm.", open: false },
    { kind: "prose", text: "Yes." },
  ]);
  expect(partsOf("Hm.</think>Yes.")[0]).toEqual({ kind: "thought", text: "Hm.", open: false });
  expect(partsOf("<think>\n\n</think>\n\nYes.")).toEqual([{ kind: "prose", text: "Yes." }]);
});

test("fenced code is apart, also while it is being written", () => {
  expect(partsOf("So:\n```py\nx = 1\n\n# y\n```\nDone.")).toEqual([
    { kind: "prose", text: "So:" },
    { kind: "code", text: "x = 1\n\n# y", language: "py", open: false },
    { kind: "prose", text: "Done." },
  ]);
  expect(partsOf("```\nx")).toEqual([{ kind: "code", text: "x", language: "", open: true }]);
});

test("strong words and code within a line", () => {
  expect(spansOf("a **b** `c` * d")).toEqual([
    { kind: "text", text: "a " },
    { kind: "strong", text: "b" },
    { kind: "text", text: " " },
    { kind: "code", text: "c" },
    { kind: "text", text: " * d" },
  ]);
});
