import { ApiError } from "../../api/errors";
import type { Deployment, DeploymentChange, DeploymentCreate, FitRequest } from "../../api/types";

export const MIB = 1 << 20;
export const ENGINES = ["native", "vllm"] as const;
export const DTYPES = ["bf16", "int8", "fp32"] as const;
export const KV_DTYPES = ["auto", "int8"] as const;

export interface Values {
  tenant: string;
  name: string;
  model: string;
  service_class: string;
  replicas: number;
  engine: (typeof ENGINES)[number];
  dtype: (typeof DTYPES)[number];
  max_model_len: number | "";
  max_num_seqs: number;
  kv_mib: number;
  kv_dtype: (typeof KV_DTYPES)[number];
  default_max_tokens: number;
}

export const INITIAL: Values = {
  tenant: "",
  name: "",
  model: "",
  service_class: "",
  replicas: 1,
  engine: "native",
  dtype: "bf16",
  max_model_len: "",
  max_num_seqs: 32,
  kv_mib: 256,
  kv_dtype: "auto",
  default_max_tokens: 512,
};

function shared(values: Values) {
  return {
    engine: values.engine,
    dtype: values.dtype,
    max_model_len: values.max_model_len || null,
    max_num_seqs: values.max_num_seqs,
    kv_bytes: values.kv_mib * MIB,
    kv_dtype: values.kv_dtype,
  };
}

/** `tenant`: whose it would be; empty: the platform's. */
export function toFit(values: Values, tenant: string): FitRequest {
  return {
    ...shared(values),
    replicas: values.replicas,
    service_class: values.service_class || null,
    tenant: tenant || null,
    guaranteed_tokens_per_s: 0,
  };
}

export function toCreate(values: Values, tenant: string): DeploymentCreate {
  return {
    ...shared(values),
    tenant: tenant || null,
    name: values.name,
    model: values.model,
    service_class: values.service_class,
    replica_count: values.replicas,
    default_max_tokens: values.default_max_tokens,
  };
}

export function fromDeployment(d: Deployment): Values {
  return {
    tenant: d.tenant.id,
    name: d.name,
    model: d.model.id,
    service_class: d.service_class.id,
    replicas: d.replica_count,
    engine: d.engine,
    dtype: d.dtype,
    max_model_len: d.max_model_len ?? "",
    max_num_seqs: d.max_num_seqs,
    kv_mib: d.kv_bytes / MIB,
    kv_dtype: d.kv_dtype,
    default_max_tokens: d.default_max_tokens,
  };
}

/** Only what was changed: a field that was left alone is nobody's wish. */
export function toChange(values: Values, was: Values): DeploymentChange {
  const now = { ...toCreate(values, ""), tenant: undefined, name: undefined };
  const before = toCreate(was, "");
  const differs = ([name, value]: [string, unknown]) =>
    value !== undefined && value !== before[name as keyof typeof before];
  return Object.fromEntries(Object.entries(now).filter(differs));
}

/** What the API calls them. The tenant is no field of the form where the page is one tenant's. */
const FIELDS: Record<string, keyof Values> = {
  name: "name",
  model: "model",
  service_class: "service_class",
  replica_count: "replicas",
  engine: "engine",
  dtype: "dtype",
  max_model_len: "max_model_len",
  max_num_seqs: "max_num_seqs",
  kv_bytes: "kv_mib",
  kv_dtype: "kv_dtype",
  default_max_tokens: "default_max_tokens",
};
const ALWAYS_SHOWN: readonly (keyof Values)[] = ["name", "model", "service_class", "replicas"];

/** The field of the form that a refusal is about, and whether it stands in the part that may be folded. */
export function fieldOf(error: Error | null): { field: keyof Values; advanced: boolean } | null {
  const field = error instanceof ApiError && error.field ? FIELDS[error.field] : undefined;
  return field ? { field, advanced: !ALWAYS_SHOWN.includes(field) } : null;
}
