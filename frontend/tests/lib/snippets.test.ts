import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { snippet } from "../../src/lib/snippets";

const BODY = {
  model: "m",
  messages: [{ role: "user", content: `It's "quoted" $HOME \`x\` \\n` }],
  stream: true,
  temperature: 0,
};

test("a shell passes the curl body on exactly as it was", () => {
  const script = snippet("curl", BODY, "key_1.s", "http://h");
  const argv = execFileSync("sh", ["-c", script.replace(/^curl/, "printf '%s\\0'")])
    .toString()
    .split("\0");
  expect(argv.slice(0, 4)).toEqual([
    "-N",
    "http://h/v1/chat/completions",
    "-H",
    "Authorization: Bearer key_1.s",
  ]);
  expect(JSON.parse(argv[5] ?? "")).toEqual(BODY);
});

test("without a token the key stays a variable, and Python and JavaScript never hold it", () => {
  expect(snippet("curl", BODY, undefined, "http://h")).toContain("Bearer $BERTH_KEY");
  for (const language of ["python", "javascript"] as const) {
    expect(snippet(language, BODY, "key_1.s", "http://h")).not.toContain("key_1.s");
  }
});

test("unset parameters are left out", () => {
  const code = snippet("python", { ...BODY, top_p: undefined }, undefined, "http://h");
  expect(code).toContain("temperature=0,");
  expect(code).not.toContain("top_p");
});
