import { expect, it } from "vitest";
import type { Decision } from "../../src/api/fleet";
import { inOrder } from "../../src/pages/decisions/Candidates";
import { inputName, inputText } from "../../src/pages/decisions/inputs";
import { guaranteedRate } from "../../src/pages/deployments/guaranteed";

it("reads a figure with the unit of its name", () => {
  expect(inputName("memory_bytes")).toBe("Memory");
  expect(inputText("memory_bytes", 3 * 2 ** 20)).toBe("3 MiB");
  expect(inputText("grace_s", 2.5)).toBe("2.5 s");
  expect(inputText("wanted", 3)).toBe("3");
  expect(inputText("nodes", ["a", "b"])).toBe("a, b");
  expect(inputText("needs", { weights_bytes: 1024 })).toBe("Weights 1 KiB");
  expect(inputText("why", null)).toBe("–");
});

it("lists the chosen candidate first, then by score, then by room", () => {
  const one = (device_id: string, fits: boolean, score: number | null, free_bytes = 0) => ({
    device_id,
    fits,
    score,
    free_bytes,
  });
  const candidates = [
    one("full", false, null, 1),
    one("good", true, 9),
    one("taken", true, 4),
    one("fair", true, 5),
    one("nearly", false, null, 7),
  ];
  const decision = { candidates, chosen: { device_id: "taken" } } as unknown as Decision;
  expect(inOrder(decision).map((c) => c.device_id)).toEqual(["taken", "good", "fair", "nearly", "full"]);
});

it("adds what contracts guarantee, a second", () => {
  const contract = (n: number | null) => ({ guaranteed_tokens_per_min: n });
  expect(guaranteedRate([contract(600), contract(null), contract(1200)])).toBe(30);
  expect(guaranteedRate([contract(null)])).toBeNull();
});
