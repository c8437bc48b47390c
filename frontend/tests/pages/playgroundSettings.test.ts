import { expect, test } from "vitest";
import { snippet } from "../../src/lib/snippets";
import { DEFAULTS, isDefault, meantBy, toBody } from "../../src/pages/playground/settings";

test("an empty field is not sent", () => {
  expect(toBody("m", DEFAULTS, [])).toEqual({ model: "m", messages: [] });
  expect(isDefault(DEFAULTS)).toBe(true);
  expect(isDefault({ ...DEFAULTS, temperature: 0 })).toBe(false);
});

test("what was set is sent, zero too, and stops mean their escapes", () => {
  const body = toBody(
    "m",
    { ...DEFAULTS, system: " Be brief. ", temperature: 0, stop: ["\\n\\n", "a\\\\n"] },
    [
      { role: "user", text: "Hi", status: "done" },
      { role: "assistant", text: "Half", status: "failed" },
    ],
  );
  expect(body).toEqual({
    model: "m",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ],
    temperature: 0,
    stop: ["\n\n", "a\\n"],
  });
  expect(meantBy("\\x")).toBe("\\x");
});

test("what only Berth knows goes through extra_body in Python, and beside the rest elsewhere", () => {
  const body = toBody("m", { ...DEFAULTS, top_k: 5, top_p: 0.5 }, []);
  const python = snippet("python", body, undefined, "http://h");
  expect(python).toContain('extra_body={"top_k":5},');
  expect(python).toContain("    top_p=0.5,");
  expect(python).not.toContain("top_k=");
  expect(snippet("javascript", body, undefined, "http://h")).toContain("  top_k: 5,");
});
