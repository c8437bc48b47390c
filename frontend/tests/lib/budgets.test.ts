import { expect, test } from "vitest";
import type { SpendingBudget } from "../../src/api/types";
import { budgetLine, shareOf, toneOf } from "../../src/components/BudgetUse";
import { budgetsOf, budgetValues, NO_BUDGETS } from "../../src/lib/budgets";

const SOME = {
  tokens_per_day: 5000,
  tokens_per_month: null,
  cost_per_day: null,
  cost_per_month: "12.5000",
};

test("an empty field is no budget, and money goes back as text", () => {
  const values = budgetValues(SOME);
  expect(values).toEqual({ ...NO_BUDGETS, tokens_per_day: 5000, cost_per_month: 12.5 });
  expect(budgetsOf(values)).toEqual({ ...SOME, cost_per_month: "12.5" });
  expect(Object.values(budgetsOf(NO_BUDGETS))).toEqual([null, null, null, null]);
});

test("a field that a person typed into may hold text", () => {
  expect(budgetsOf({ ...NO_BUDGETS, tokens_per_day: "9007199254740991", cost_per_day: "0.0001" })).toEqual({
    ...budgetsOf(NO_BUDGETS),
    tokens_per_day: 9007199254740991,
    cost_per_day: "0.0001",
  });
});

function budget(values: Partial<SpendingBudget>): SpendingBudget {
  return {
    kind: "key",
    id: "key_1",
    tenant: "ten_1",
    name: "ci",
    unit: "tokens",
    period: "day",
    amount: "5000",
    used: "1200",
    begins_at: "2026-12-01T00:00:00Z",
    ends_at: "2026-12-02T00:00:00Z",
    ...values,
  };
}

test("a budget says what is used of it and until when it counts", () => {
  expect(budgetLine(budget({}), "USD")).toBe("1,200 of 5,000 tokens today");
  const money = budget({ unit: "cost", period: "month", amount: "20", used: "0.0034" });
  expect(budgetLine(money, "USD")).toBe("$0.0034 of $20.00 this month");
});

test("near its end a budget warns, beyond it it is spent", () => {
  expect([0.2, 0.8, 1, 1.4].map(toneOf)).toEqual(["accent", "late", "bad", "bad"]);
  expect(shareOf(budget({ used: "6000" }))).toBeCloseTo(1.2);
});
