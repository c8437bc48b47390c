import type { Contract, ContractChange } from "../../api/types";
import { t } from "../../i18n";
import { type BudgetValues, budgetsOf, budgetValues, NO_BUDGETS } from "../../lib/budgets";

type Num = number | "";

/** OpenAI's words for the classes that a contract may allow beside its own. */
export const TIERS = ["flex", "priority", "scale"] as const;
type Tiers = Record<(typeof TIERS)[number], string | null>;

/** `valid_from` is what a datetime-local input holds; "" means now. */
export interface ContractValues extends BudgetValues {
  tenant: string;
  deployment: string;
  service_class: string;
  guaranteed_requests_per_min: Num;
  guaranteed_tokens_per_min: Num;
  burst_requests_per_min: Num;
  burst_tokens_per_min: Num;
  max_concurrency: Num;
  weight: Num;
  when_late: Contract["when_late"];
  tiers: Tiers;
  valid_from: string;
}

export const NEW_CONTRACT: ContractValues = {
  ...NO_BUDGETS,
  tenant: "",
  deployment: "",
  service_class: "",
  guaranteed_requests_per_min: "",
  guaranteed_tokens_per_min: "",
  burst_requests_per_min: 0,
  burst_tokens_per_min: 0,
  max_concurrency: "",
  weight: 1,
  when_late: "queue",
  tiers: { flex: null, priority: null, scale: null },
  valid_from: "",
};

export function valuesOf(contract: Contract): ContractValues {
  const allowed = Object.fromEntries(contract.tiers.map((one) => [one.tier, one.class_id]));
  return {
    ...budgetValues(contract),
    tenant: contract.tenant.id,
    deployment: contract.deployment.id,
    service_class: contract.service_class.id,
    guaranteed_requests_per_min: contract.guaranteed_requests_per_min ?? "",
    guaranteed_tokens_per_min: contract.guaranteed_tokens_per_min ?? "",
    burst_requests_per_min: contract.burst_requests_per_min,
    burst_tokens_per_min: contract.burst_tokens_per_min,
    max_concurrency: contract.max_concurrency ?? "",
    weight: contract.weight,
    when_late: contract.when_late,
    tiers: { ...NEW_CONTRACT.tiers, ...allowed },
    valid_from: "",
  };
}

export function changeOf(values: ContractValues): ContractChange & { service_class: string } {
  const limit = (value: Num) => (value === "" ? null : value);
  const tiers = TIERS.flatMap((tier) => {
    const named = values.tiers[tier];
    return named ? [[tier, named] as const] : [];
  });
  const burst = (value: Num, guaranteed: Num) => (guaranteed === "" || value === "" ? 0 : value);
  return {
    ...budgetsOf(values),
    service_class: values.service_class,
    guaranteed_requests_per_min: limit(values.guaranteed_requests_per_min),
    guaranteed_tokens_per_min: limit(values.guaranteed_tokens_per_min),
    burst_requests_per_min: burst(values.burst_requests_per_min, values.guaranteed_requests_per_min),
    burst_tokens_per_min: burst(values.burst_tokens_per_min, values.guaranteed_tokens_per_min),
    max_concurrency: limit(values.max_concurrency),
    weight: values.weight === "" ? 1 : values.weight,
    when_late: values.when_late,
    tiers: Object.fromEntries(tiers),
    valid_from: values.valid_from ? new Date(values.valid_from).toISOString() : null,
  };
}

export function checkContract(
  values: ContractValues,
  nowMs: number = Date.now(),
): Partial<Record<keyof ContractValues, string>> {
  const words = t.slas.contracts.form;
  const wrong: Partial<Record<keyof ContractValues, string>> = {};
  for (const name of ["tenant", "deployment", "service_class"] as const) {
    if (!values[name]) wrong[name] = words.needed;
  }
  if (values.valid_from && Date.parse(values.valid_from) <= nowMs) wrong.valid_from = words.future;
  return wrong;
}
