import { expect, it } from "vitest";
import type { PlanSpot } from "../../src/api/fleet";
import { changeKind, changeText, inOrder, spotText } from "../../src/pages/plans/spots";

const spot = (node: string, gpu: string, profile: string, start: number): PlanSpot => ({
  gpu,
  gpu_name: gpu,
  node,
  node_name: node,
  slot: { board: "h100-sxm-80gb", kind: "mig", profile },
  start,
});

it("names the node where it is another", () => {
  const here = spot("a", "gpu-0", "1g.10gb", 3);
  expect(spotText(here)).toBe("a gpu-0 · 1g.10gb@3");
  expect(changeText({ from: here, to: spot("a", "gpu-2", "2g.20gb", 4) })).toBe(
    "a gpu-0 · 1g.10gb@3 → gpu-2 · 2g.20gb@4",
  );
  expect(changeText({ from: here, to: spot("b", "gpu-2", "2g.20gb", 4) })).toBe(
    "a gpu-0 · 1g.10gb@3 → b gpu-2 · 2g.20gb@4",
  );
});

it("tells a move from what starts and what goes, and shows moves first", () => {
  const here = spot("a", "gpu-0", "1g.10gb", 3);
  const stop = { from: here, to: null };
  const start = { from: null, to: here };
  const move = { from: here, to: here };
  expect([stop, start, move].map(changeKind)).toEqual(["stop", "start", "move"]);
  expect(inOrder([stop, start, move])).toEqual([move, start, stop]);
});
