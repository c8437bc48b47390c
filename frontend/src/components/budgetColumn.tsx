import type { BudgetsByHolder } from "../hooks/useBudgets";
import { t } from "../i18n";
import { BudgetUse } from "./BudgetUse";
import classes from "./BudgetUse.module.css";
import type { Column } from "./DataTable";
import { Hint } from "./Hint";

/** The column that shows of keys, tenants or contracts what of their budgets is used. */
export function budgetColumn<Row extends { id: string }>(budgets: BudgetsByHolder): Column<Row> {
  return {
    id: "budgets",
    header: () => (
      <span className={classes.head}>
        {t.kit.budgets.column} <Hint text={t.kit.budgets.hint} />
      </span>
    ),
    meta: { hide: "tablet" },
    cell: ({ row }) => <BudgetUse budgets={budgets.of(row.original.id)} currency={budgets.currency} />,
  };
}
