import { expect, test } from "vitest";
import { ApiError } from "../../src/api/errors";
import type { Deployment } from "../../src/api/types";
import {
  fieldOf,
  fromDeployment,
  INITIAL,
  toChange,
  toCreate,
  toFit,
} from "../../src/pages/deployments/deploymentForm";

test("what is sent says bf16 and auto until another is chosen", () => {
  expect(toFit(INITIAL, "")).toEqual({
    engine: "native",
    dtype: "bf16",
    max_model_len: null,
    max_num_seqs: 32,
    kv_bytes: 268435456,
    kv_dtype: "auto",
    replicas: 1,
    service_class: null,
    tenant: null,
    guaranteed_tokens_per_s: 0,
  });
});

test("int8 weights and int8 KV are sent to the fit check and to the deployment alike", () => {
  const values = { ...INITIAL, dtype: "int8", kv_dtype: "int8", model: "mdl_1", name: "small" } as const;
  expect(toFit({ ...values, service_class: "cls_1" }, "ten_1")).toMatchObject({
    dtype: "int8",
    kv_dtype: "int8",
    service_class: "cls_1",
    tenant: "ten_1",
  });
  expect(toCreate(values, "ten_1")).toMatchObject({
    tenant: "ten_1",
    model: "mdl_1",
    name: "small",
    dtype: "int8",
    kv_dtype: "int8",
    replica_count: 1,
  });
});

test.each([
  ["kv_dtype", { field: "kv_dtype", advanced: true }],
  ["kv_bytes", { field: "kv_mib", advanced: true }],
  ["replica_count", { field: "replicas", advanced: false }],
  ["name", { field: "name", advanced: false }],
  ["tenant", null],
  [undefined, null],
])("a refusal of %s stands where it can be seen", (field, shown) => {
  const error = new ApiError({ status: 400, title: "Bad", detail: "No", ...(field && { field }) });
  expect(fieldOf(error)).toEqual(shown);
});

test("what is no answer of the API stands at no field", () => {
  expect(fieldOf(new Error("offline"))).toBeNull();
});

const deployment = {
  id: "dep_1",
  tenant: { id: "ten_1", name: "Acme", slug: "acme" },
  name: "chat",
  model: { id: "mdl_1", name: "small" },
  service_class: { id: "cls_1", name: "interactive" },
  desired_state: "running",
  replica_count: 2,
  engine: "native",
  dtype: "bf16",
  max_model_len: null,
  max_num_seqs: 32,
  kv_bytes: 1000 * 1000 * 1000,
  kv_dtype: "auto",
  default_max_tokens: 512,
} as unknown as Deployment;

test("an edit sends what was changed and nothing else, also where memory is no whole MiB", () => {
  const was = fromDeployment(deployment);
  expect(toChange({ ...was }, was)).toEqual({});
  expect(toChange({ ...was, replicas: 3, default_max_tokens: 64 }, was)).toEqual({
    replica_count: 3,
    default_max_tokens: 64,
  });
  expect(toChange({ ...was, kv_mib: 512, max_model_len: 2048 }, was)).toEqual({
    kv_bytes: 536870912,
    max_model_len: 2048,
  });
  const bounded = { ...was, max_model_len: 2048 };
  expect(toChange({ ...bounded, max_model_len: "" }, bounded)).toEqual({ max_model_len: null });
});
