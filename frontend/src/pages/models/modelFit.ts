import type { FitRequest, Model } from "../../api/types";

export const MIB = 1 << 20;
const LEAST_KV_MIB = 256;

/** The KV memory, in whole MiB, that one request of the longest context needs; small models get the default. */
export function kvMibFor(
  model: Pick<Model, "kv_bytes_per_token" | "context_length">,
  maxLen?: number,
): number {
  const tokens = Math.min(maxLen || model.context_length, model.context_length || Number.POSITIVE_INFINITY);
  return Math.max(LEAST_KV_MIB, Math.ceil((model.kv_bytes_per_token * tokens) / MIB));
}

/** What one replica is asked for when nobody chose anything: the settings a new deployment starts from. */
export function defaultFit(model: Model): FitRequest {
  return {
    engine: "native",
    dtype: "bf16",
    max_model_len: null,
    max_num_seqs: 32,
    kv_bytes: kvMibFor(model) * MIB,
    kv_dtype: "auto",
    replicas: 1,
    guaranteed_tokens_per_s: 0,
  };
}

/** A name for what a source holds: the last part of a path or id, without what only says its format. */
export function nameOfSource(source: string): string {
  const last = source.split("@")[0]?.split("/").filter(Boolean).at(-1) ?? "";
  return last
    .replace(/\.(gguf|safetensors)$/i, "")
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .toLowerCase()
    .slice(0, 80);
}
