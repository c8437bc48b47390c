import type { SpendingBudget } from "../api/types";
import { t } from "../i18n";
import { integer } from "../lib/format";
import { cost, money } from "../lib/money";
import classes from "./BudgetUse.module.css";
import { Meter } from "./Meter";

/** What of a budget is used, 0 to 1 and beyond. */
export function shareOf(budget: SpendingBudget): number {
  return Number(budget.used) / Number(budget.amount);
}

export function toneOf(share: number): "accent" | "late" | "bad" {
  if (share >= 1) return "bad";
  return share >= 0.8 ? "late" : "accent";
}

/** `1,200 of 5,000 tokens today`, or money, or this month. */
export function budgetLine(budget: SpendingBudget, currency: string): string {
  const words = t.kit.budgets;
  const tokens = budget.unit === "tokens";
  const used = tokens ? integer(Number(budget.used)) : cost(budget.used, currency);
  const amount = tokens ? words.tokens(integer(Number(budget.amount))) : money(budget.amount, currency);
  return words.use[budget.period](used, amount);
}

/** Every budget of one key, tenant or contract, with how much of it is used; nothing where there is none. */
export function BudgetUse({ budgets, currency }: { budgets: SpendingBudget[]; currency: string }) {
  if (!budgets.length) return <span className="muted">{t.kit.budgets.none}</span>;
  return (
    <div className={classes.list} data-testid="budget-use">
      {budgets.map((budget) => {
        const label = budgetLine(budget, currency);
        const share = shareOf(budget);
        return (
          <div key={`${budget.period} ${budget.unit}`} className={classes.one}>
            <span className="num">{label}</span>
            <Meter value={share} tone={toneOf(share)} label={label} />
          </div>
        );
      })}
    </div>
  );
}
