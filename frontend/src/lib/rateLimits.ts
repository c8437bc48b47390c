import { t } from "../i18n";
import { type Budgets, type BudgetValues, budgetsOf, budgetValues, NO_BUDGETS } from "./budgets";
import { integer } from "./format";

export const RATE_LIMITS = ["requests_per_minute", "tokens_per_minute", "max_concurrency"] as const;
type Name = (typeof RATE_LIMITS)[number];

/** As the API has them: null is no limit. */
export type RateLimits = Record<Name, number | null>;
/** As a form has them, with the budgets: empty is no limit. */
export type LimitValues = Record<Name, number | ""> & BudgetValues;

export const NO_LIMITS: LimitValues = {
  ...NO_BUDGETS,
  requests_per_minute: "",
  tokens_per_minute: "",
  max_concurrency: "",
};

export function limitValues(limits: RateLimits & Budgets): LimitValues {
  const value = (name: Name) => limits[name] ?? "";
  return {
    ...budgetValues(limits),
    requests_per_minute: value("requests_per_minute"),
    tokens_per_minute: value("tokens_per_minute"),
    max_concurrency: value("max_concurrency"),
  };
}

export function limitsOf(values: LimitValues): RateLimits & Budgets {
  const limit = (name: Name) => (values[name] === "" ? null : values[name]);
  return {
    ...budgetsOf(values),
    requests_per_minute: limit("requests_per_minute"),
    tokens_per_minute: limit("tokens_per_minute"),
    max_concurrency: limit("max_concurrency"),
  };
}

/** Those that are set, in words; empty where there is none. */
export function limitsLine(limits: RateLimits): string {
  return RATE_LIMITS.flatMap((name) => {
    const limit = limits[name];
    return limit === null ? [] : [t.kit.limits.short[name](integer(limit))];
  }).join(" · ");
}
