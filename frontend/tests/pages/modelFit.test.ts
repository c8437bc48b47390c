import { describe, expect, it } from "vitest";
import { kvMibFor, nameOfSource } from "../../src/pages/models/modelFit";
import { secondsLeft } from "../../src/pages/models/rate";

describe("kvMibFor", () => {
  it("holds one request of the whole context", () => {
    // 128 KiB a token, 32,768 tokens: 4 GiB.
    expect(kvMibFor({ kv_bytes_per_token: 131_072, context_length: 32_768 })).toBe(4096);
  });

  it("never falls below the default, and follows a shorter limit", () => {
    expect(kvMibFor({ kv_bytes_per_token: 23_040, context_length: 8192 })).toBe(256);
    expect(kvMibFor({ kv_bytes_per_token: 131_072, context_length: 32_768 }, 8192)).toBe(1024);
  });
});

it("names a model after the last part of its source", () => {
  expect(nameOfSource("Qwen/Qwen3-8B@main")).toBe("qwen3-8b");
  expect(nameOfSource("/srv/models/My Model.Q4_1.gguf")).toBe("my-model-q4_1");
  expect(nameOfSource("package:tiny==1.0/files/tiny.gguf")).toBe("tiny");
  expect(nameOfSource("/")).toBe("");
});

it("says how long a registration still takes only where it is known", () => {
  expect(secondsLeft(50, 100, 300)).toBe(4);
  expect(secondsLeft(0, 100, 300)).toBeNull();
  expect(secondsLeft(50, 300, 300)).toBeNull();
});
