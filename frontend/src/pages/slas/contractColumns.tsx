import { Menu } from "@mantine/core";
import { IconHistory, IconPencil, IconPlayerStop } from "@tabler/icons-react";
import type { Contract } from "../../api/types";
import { budgetColumn } from "../../components/budgetColumn";
import { ACTIONS, type Column } from "../../components/DataTable";
import { ObjectMenu } from "../../components/ObjectMenu";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import type { BudgetsByHolder } from "../../hooks/useBudgets";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import { classLine } from "../deployments/classLine";
import classes from "./Slas.module.css";

const words = t.slas.contracts;

/** The state whose colour stands for a contract's. */
export const PILLS = {
  current: "active",
  scheduled: "waiting",
  ended: "stopped",
  replaced: "stopped",
} as const;

/** A guaranteed rate and what may pass beyond it: `60 + 30`; no limit is said in words. */
export function rateLine(guaranteed: number | null, burst: number): string {
  if (guaranteed === null) return words.noLimit;
  return burst ? words.rate(integer(guaranteed), integer(burst)) : integer(guaranteed);
}

interface Actions {
  onEdit: ((contract: Contract) => void) | undefined;
  onEnd: ((contract: Contract) => void) | undefined;
  onHistory: (contract: Contract) => void;
  tenantShown: boolean;
}

function ContractMenu({ contract, onEdit, onEnd, onHistory }: Actions & { contract: Contract }) {
  const alive = contract.state === "current" || contract.state === "scheduled";
  const open = alive && contract.valid_until === null;
  return (
    <ObjectMenu label={words.menu(contract.tenant.name, contract.deployment.name)} testId="contract-menu">
      <Menu.Item leftSection={<IconHistory size={15} />} onClick={() => onHistory(contract)}>
        {words.history}
      </Menu.Item>
      {onEdit && open && (
        <Menu.Item
          leftSection={<IconPencil size={15} />}
          onClick={() => onEdit(contract)}
          data-testid="edit-contract"
        >
          {words.change}
        </Menu.Item>
      )}
      {onEnd && open && (
        <Menu.Item color="red" leftSection={<IconPlayerStop size={15} />} onClick={() => onEnd(contract)}>
          {contract.state === "scheduled" ? words.withdraw : words.end}
        </Menu.Item>
      )}
    </ObjectMenu>
  );
}

export function contractColumns(actions: Actions, budgets: BudgetsByHolder): Column<Contract>[] {
  const head = words.columns;
  const columns: Column<Contract>[] = [
    {
      id: "deployment",
      header: head.deployment,
      meta: { order: "deployment" },
      cell: ({ row }) => (
        <div>
          <div>{row.original.deployment.name}</div>
          <div className={classes.under}>
            {actions.tenantShown ? `${row.original.tenant.name} · ` : ""}
            {words.version(row.original.version)}
          </div>
        </div>
      ),
    },
    {
      id: "service_class",
      header: head.class,
      meta: { order: "service_class" },
      cell: ({ row }) => (
        <div>
          <div>{row.original.service_class.name}</div>
          <div className={classes.under} data-hide="phone">
            {classLine(row.original.terms)}
          </div>
        </div>
      ),
    },
    {
      id: "requests",
      header: head.requests,
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) =>
        rateLine(row.original.guaranteed_requests_per_min, row.original.burst_requests_per_min),
    },
    {
      id: "tokens",
      header: head.tokens,
      meta: { end: true, hide: "tablet" },
      cell: ({ row }) => rateLine(row.original.guaranteed_tokens_per_min, row.original.burst_tokens_per_min),
    },
    budgetColumn(budgets),
    {
      id: "state",
      header: head.state,
      cell: ({ row }) => (
        <StatePill state={PILLS[row.original.state]} label={words.states[row.original.state]} />
      ),
    },
    {
      id: "valid_from",
      header: head.since,
      meta: { order: "valid_from", hide: "phone" },
      cell: ({ row }) => <TimeAgo at={row.original.valid_from} />,
    },
    {
      ...ACTIONS,
      cell: ({ row }) => <ContractMenu contract={row.original} {...actions} />,
    },
  ];
  return columns;
}
