import type { ClassCreate, ServiceClass } from "../../api/types";
import { t } from "../../i18n";

type Num = number | "";

/** As a person types them: shares in %, the whole answer's limit in seconds; "" is no limit. */
export interface ClassValues {
  name: string;
  description: string;
  base_ms: Num;
  free_prompt_tokens: Num;
  prefill_tokens_per_s: Num;
  tpot_ms: Num;
  stretch_tpot_ms: Num;
  fluidity: Num;
  target: Num;
  e2e_s: Num;
  isolation: Isolation;
  input: Num;
  cached: Num;
  output: Num;
}

export type Isolation = ServiceClass["isolation"];
/** From the least to the most; a replica may always get more than it asks for. */
export const ISOLATION: readonly Isolation[] = ["time-slice", "mps", "mig", "whole"];

export const NEW_CLASS: ClassValues = {
  name: "",
  description: "",
  base_ms: 1000,
  free_prompt_tokens: 0,
  prefill_tokens_per_s: "",
  tpot_ms: 100,
  stretch_tpot_ms: "",
  fluidity: 99,
  target: 95,
  e2e_s: "",
  isolation: "time-slice",
  input: 0,
  cached: 0,
  output: 0,
};

/** Shares come as binary fractions: 0.99 · 100 is not 99 to the last digit. */
const inPercent = (share: number): number => Number((share * 100).toFixed(6));
const share = (percent: Num): number | undefined =>
  percent === "" ? undefined : Number((percent / 100).toFixed(8));
const limit = (value: Num): number | null => (value === "" ? null : value);

export function valuesOf(level: ServiceClass): ClassValues {
  const { price_per_million: price } = level;
  return {
    name: level.name,
    description: level.description,
    base_ms: level.base_ms ?? "",
    free_prompt_tokens: level.free_prompt_tokens,
    prefill_tokens_per_s: level.prefill_tokens_per_s ?? "",
    tpot_ms: level.tpot_ms ?? "",
    stretch_tpot_ms: level.stretch_tpot_ms ?? "",
    fluidity: inPercent(level.fluidity_floor),
    target: inPercent(level.attainment_target),
    e2e_s: level.e2e_ms === null ? "" : level.e2e_ms / 1000,
    isolation: level.isolation,
    input: Number(price.input),
    cached: Number(price.cached),
    output: Number(price.output),
  };
}

export function bodyOf(values: ClassValues): ClassCreate {
  const amount = (value: Num) => String(value === "" ? 0 : value);
  return {
    name: values.name.trim(),
    description: values.description.trim(),
    base_ms: limit(values.base_ms),
    free_prompt_tokens: values.free_prompt_tokens === "" ? 0 : values.free_prompt_tokens,
    prefill_tokens_per_s: limit(values.prefill_tokens_per_s),
    tpot_ms: limit(values.tpot_ms),
    stretch_tpot_ms: limit(values.stretch_tpot_ms),
    fluidity_floor: share(values.fluidity),
    attainment_target: share(values.target),
    e2e_ms: values.e2e_s === "" ? null : Math.round(values.e2e_s * 1000),
    isolation: values.isolation,
    price_per_million: {
      input: amount(values.input),
      cached: amount(values.cached),
      output: amount(values.output),
    },
  };
}

const NAME = /^[-a-zA-Z0-9_]{1,40}$/;

export function checkClass(values: ClassValues): Partial<Record<keyof ClassValues, string>> {
  const words = t.slas.classes.form;
  const wrong: Partial<Record<keyof ClassValues, string>> = {};
  if (!NAME.test(values.name.trim())) wrong.name = words.nameRule;
  if (values.fluidity === "") wrong.fluidity = words.needed;
  if (values.target === "") wrong.target = words.needed;
  if (values.prefill_tokens_per_s !== "" && values.base_ms === "") wrong.base_ms = words.baseNeeded;
  if (values.stretch_tpot_ms !== "" && values.tpot_ms !== "" && values.stretch_tpot_ms > values.tpot_ms)
    wrong.stretch_tpot_ms = words.stretchRule;
  return wrong;
}
