/** What may be used in a day or a month: tokens, or money as decimal text. */
export const BUDGETS = ["tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month"] as const;
export type BudgetName = (typeof BUDGETS)[number];

/** As the API has them: null is no budget. */
export interface Budgets {
  tokens_per_day: number | null;
  tokens_per_month: number | null;
  cost_per_day: string | null;
  cost_per_month: string | null;
}
/** As a form has them: empty is no budget. */
export type BudgetValues = Record<BudgetName, number | string>;

export const NO_BUDGETS: BudgetValues = {
  tokens_per_day: "",
  tokens_per_month: "",
  cost_per_day: "",
  cost_per_month: "",
};

export function budgetValues(budgets: Budgets): BudgetValues {
  // "5.5000" of the server is 5.5 in a field, and goes back as "5.5"
  const money = (amount: string | null) => (amount === null ? "" : Number(amount));
  return {
    tokens_per_day: budgets.tokens_per_day ?? "",
    tokens_per_month: budgets.tokens_per_month ?? "",
    cost_per_day: money(budgets.cost_per_day),
    cost_per_month: money(budgets.cost_per_month),
  };
}

export function budgetsOf(values: BudgetValues): Budgets {
  const tokens = (value: number | string) => (value === "" ? null : Number(value));
  const money = (value: number | string) => (value === "" ? null : String(value));
  return {
    tokens_per_day: tokens(values.tokens_per_day),
    tokens_per_month: tokens(values.tokens_per_month),
    cost_per_day: money(values.cost_per_day),
    cost_per_month: money(values.cost_per_month),
  };
}
