import { expect, test } from "vitest";
import type { Contract } from "../../src/api/types";
import { besides, firstOf, namedBy, targetsOf } from "../../src/pages/playground/targets";

const NOW = Date.parse("2026-11-30T12:00:00Z");

function contract(
  tenant: string,
  deployment: string,
  level: string,
  from = "2026-11-01T00:00:00Z",
): Contract {
  return {
    tenant: { id: `ten_${tenant}`, name: tenant, slug: tenant },
    deployment: { id: `dep_${deployment}`, name: deployment },
    service_class: { id: `cls_${level}`, name: level },
    valid_from: from,
  } as Contract;
}

const TARGETS = targetsOf(
  [
    contract("b", "y", "batch"),
    contract("a", "y", "chat"),
    contract("a", "x", "chat"),
    contract("a", "z", "code", "2027-01-01T00:00:00Z"),
  ],
  NOW,
);
const names = TARGETS.map((one) => `${one.tenantName}/${one.name}`);

test("by tenant and name, without contracts that begin later", () => {
  expect(names).toEqual(["a/x", "a/y", "b/y"]);
});

test("one that answers comes first, else the first of all", () => {
  expect(firstOf(TARGETS, new Set(["dep_y"]))?.key).toBe("ten_a dep_y");
  expect(firstOf(TARGETS, new Set())?.key).toBe("ten_a dep_x");
});

test("a deployment is its first contract, or that of the tenant that is named", () => {
  expect(namedBy(TARGETS, "dep_y", undefined)?.tenant).toBe("ten_a");
  expect(namedBy(TARGETS, "dep_y", "ten_b")?.level.name).toBe("batch");
  expect(namedBy(TARGETS, "dep_x", "ten_b")).toBeUndefined();
});

test("beside one stands another class, then another that answers, then any, then itself", () => {
  const [x, y] = TARGETS;
  if (!x || !y) throw new Error("no targets");
  expect(besides(TARGETS, x, new Set(["dep_x", "dep_y"])).key).toBe("ten_b dep_y");
  expect(besides([x, y], x, new Set(["dep_y"])).key).toBe(y.key);
  expect(besides([x, y], x, new Set()).key).toBe(y.key);
  expect(besides([x], x, new Set()).key).toBe(x.key);
});
