import type { ServiceClass } from "../../api/types";
import { t } from "../../i18n";
import { integer, milliseconds, NONE } from "../../lib/format";

export type Limits = Pick<ServiceClass, "base_ms" | "free_prompt_tokens" | "prefill_tokens_per_s">;

/** The limit of a request's first token, in ms, with so many new prompt tokens (goodput: per request). */
export function ttftLimit(level: Limits, newTokens: number): number | null {
  if (level.base_ms === null) return null;
  if (!level.prefill_tokens_per_s) return level.base_ms;
  const charged = Math.max(0, newTokens - level.free_prompt_tokens);
  return level.base_ms + (1000 * charged) / level.prefill_tokens_per_s;
}

export function ttftLine(level: Limits): string {
  if (level.base_ms === null) return NONE;
  const base = milliseconds(level.base_ms);
  if (!level.prefill_tokens_per_s) return base;
  const rate = integer(level.prefill_tokens_per_s);
  if (level.free_prompt_tokens === 0) return t.slas.classes.ttftAll(base, rate);
  return t.slas.classes.ttft(base, integer(level.free_prompt_tokens), rate);
}
