import { expect, test } from "vitest";
import type { Contract } from "../../src/api/types";
import { changeOf, NEW_CONTRACT, valuesOf } from "../../src/pages/slas/contractForm";

const CONTRACT = {
  tenant: { id: "ten_1" },
  deployment: { id: "dep_1" },
  service_class: { id: "cls_chat" },
  tiers: [{ tier: "flex", class_id: "cls_batch", class_name: "batch" }],
  weight: 2,
} as unknown as Contract;

test("a contract's tiers go through the form as they came", () => {
  const values = valuesOf(CONTRACT);
  expect(values.tiers).toEqual({ flex: "cls_batch", priority: null, scale: null });
  expect(changeOf(values).tiers).toEqual({ flex: "cls_batch" });
});

test("what becomes of late requests goes through the form, and is to wait where nobody chose", () => {
  expect(changeOf(valuesOf({ ...CONTRACT, when_late: "refuse" })).when_late).toBe("refuse");
  expect(changeOf(NEW_CONTRACT).when_late).toBe("queue");
});

test("a tier that is cleared is allowed no more", () => {
  const values = { ...valuesOf(CONTRACT), tiers: { flex: null, priority: "cls_code", scale: null } };
  expect(changeOf(values).tiers).toEqual({ priority: "cls_code" });
  expect(changeOf(NEW_CONTRACT).tiers).toEqual({});
});
