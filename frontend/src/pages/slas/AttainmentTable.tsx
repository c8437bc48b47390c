import { useMemo } from "react";
import type { AttainedGroup, AttainmentGroup } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { decimal, integer, milliseconds, percent } from "../../lib/format";
import { budgetFill, budgetText, budgetTone } from "./BudgetMeters";
import classes from "./Slas.module.css";

const words = t.slas.attainment;
const head = words.table;

const COLUMNS: Column<AttainedGroup>[] = [
  {
    id: "name",
    header: head.name,
    accessorFn: (row) => row.label || row.key || words.unknown,
    sortFn: "text",
  },
  {
    id: "offered",
    header: head.offered,
    accessorFn: (row) => row.offered,
    cell: ({ row }) => integer(row.original.offered),
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
  },
  {
    id: "attainment",
    header: head.attainment,
    accessorFn: (row) => row.attainment ?? -1,
    cell: ({ row }) => percent(row.original.attainment),
    sortFn: "basic",
    meta: { end: true },
  },
  {
    id: "target",
    header: head.target,
    accessorFn: (row) => row.budget.target ?? 0,
    cell: ({ row }) => percent(row.original.budget.target),
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
  },
  {
    id: "budget",
    header: head.budget,
    accessorFn: (row) => row.budget.budget_left ?? 2,
    cell: ({ row }) => {
      const left = row.original.budget.budget_left;
      return (
        <div className={classes.budgetCell}>
          {budgetText(left)}
          <Meter
            value={budgetFill(left)}
            tone={budgetTone(left) ?? "good"}
            label={`${head.budget}: ${budgetText(left)}`}
          />
        </div>
      );
    },
    sortFn: "basic",
    meta: { end: true },
  },
  {
    id: "burn1",
    header: head.burn1,
    accessorFn: (row) => row.budget.burn_rate_1h ?? -1,
    cell: ({ row }) => decimal(row.original.budget.burn_rate_1h),
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
  },
  {
    id: "burn6",
    header: head.burn6,
    accessorFn: (row) => row.budget.burn_rate_6h ?? -1,
    cell: ({ row }) => decimal(row.original.budget.burn_rate_6h),
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
  },
  {
    id: "ttft",
    header: head.ttft,
    accessorFn: (row) => row.ttft_ms.p95 ?? -1,
    cell: ({ row }) => milliseconds(row.original.ttft_ms.p95),
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
  },
  {
    id: "tpot",
    header: head.tpot,
    accessorFn: (row) => row.tpot_ms.p95 ?? -1,
    cell: ({ row }) => milliseconds(row.original.tpot_ms.p95),
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
  },
];

interface Props {
  rows: AttainedGroup[];
  group: AttainmentGroup;
  onOpen: (row: AttainedGroup) => void;
}

export function AttainmentTable({ rows, group, onOpen }: Props) {
  const seen = useMemo(() => rows.filter((row) => row.offered > 0), [rows]);
  return (
    <Panel title={words.groups[group]} flush>
      <DataTable
        rows={seen}
        columns={COLUMNS}
        rowId={(row) => row.key}
        label={words.groups[group]}
        onOpen={onOpen}
        initialSort={[{ id: "budget", desc: false }]}
        empty={null}
        testId="attainment-groups"
      />
    </Panel>
  );
}
