import { expect, test } from "vitest";
import { cookie } from "../../src/api/cookie";
import { toApiError } from "../../src/api/errors";
import { searchOf } from "../../src/lib/search";
import { slugError, toSlug } from "../../src/lib/slug";

test("a cookie is found by its whole name", () => {
  const jar = "xcsrftoken=no; csrftoken=a%3Db; sid=1";
  expect(cookie("csrftoken", jar)).toBe("a=b");
  expect(cookie("token", jar)).toBe("");
});

test("problem details keep their words; anything else says its status", () => {
  const error = toApiError(409, {
    title: "Conflict",
    detail: "The name is taken",
    code: "conflict",
    field: "name",
  });
  expect([error.message, error.status, error.code, error.field]).toEqual([
    "The name is taken",
    409,
    "conflict",
    "name",
  ]);
  expect(toApiError(502, "<html>").message).toBe("HTTP 502");
});

test("a URL's search keeps known names and drops the rest", () => {
  const kinds = { q: "string", create: "boolean" } as const;
  expect(searchOf({ q: 42, create: "true", evil: "x" }, kinds)).toEqual({ q: "42", create: true });
  expect(searchOf({ q: "", create: "no" }, kinds)).toEqual({});
});

test.each(["a", "smollm2-135m", "a_b", "0", "x".repeat(63)])("%s is a name", (name) => {
  expect(slugError(name)).toBeNull();
});

test.each(["", "-a", "a-", "A", "a b", "a/b", "ä", "x".repeat(64)])("%s is no name", (name) => {
  expect(slugError(name)).not.toBeNull();
});

test("any text becomes a name that is allowed", () => {
  expect(toSlug("Qwen/Qwen3 0.6B (Instruct)")).toBe("qwen-qwen3-0-6b-instruct");
  expect(slugError(toSlug(`${"x".repeat(62)} y`))).toBeNull();
});
