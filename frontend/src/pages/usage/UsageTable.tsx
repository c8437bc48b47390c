import { useMemo } from "react";
import type { UsageGroup, UsageRow, UsageSummary } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { integer, NONE, percent } from "../../lib/format";
import { cost } from "../../lib/money";
import { isDeepest } from "./drill";
import classes from "./Usage.module.css";

const words = t.usage;
const head = words.columns;

const dayFormat = new Intl.DateTimeFormat(t.locale, { dateStyle: "medium", timeZone: "UTC" });
const hourFormat = new Intl.DateTimeFormat(t.locale, {
  dateStyle: "medium",
  timeStyle: "short",
  timeZone: "UTC",
});

export function hourName(at: string): string {
  return `${hourFormat.format(new Date(at))} UTC`;
}

export function nameOf(group: UsageGroup, row: Pick<UsageRow, "key" | "label">): string {
  if (group === "day") return dayFormat.format(new Date(row.key));
  if (group === "hour") return hourName(row.key);
  return row.label || row.key || words.unknown;
}

function columns(group: UsageGroup, data: UsageSummary): Column<UsageRow>[] {
  const number = (
    id: keyof UsageRow & string,
    header: string,
    hide?: "phone" | "tablet",
  ): Column<UsageRow> => ({
    id,
    header,
    accessorFn: (row) => row[id],
    cell: ({ row }) => integer(row.original[id] as number),
    sortFn: "basic",
    meta: { end: true, hide },
  });
  const tokens = data.total.prompt_tokens + data.total.completion_tokens;
  return [
    {
      id: "name",
      header: words.groups[group],
      accessorFn: (row) => (group === "day" || group === "hour" ? row.key : nameOf(group, row)),
      cell: ({ row }) => {
        const share = tokens ? (row.original.prompt_tokens + row.original.completion_tokens) / tokens : 0;
        const name = nameOf(group, row.original);
        return (
          <div className={classes.name}>
            <span>{name}</span>
            <Meter value={share} tone="accent" label={words.share(name, percent(share))} />
          </div>
        );
      },
      sortFn: "text",
    },
    number("requests", head.requests),
    {
      id: "good",
      header: head.good,
      accessorFn: (row) => (row.offered ? row.good / row.offered : -1),
      cell: ({ row }) => (row.original.offered ? percent(row.original.good / row.original.offered) : NONE),
      sortFn: "basic",
      meta: { end: true, hide: "phone" },
    },
    number("prompt_tokens", head.prompt, "tablet"),
    number("cached_tokens", head.cached, "tablet"),
    number("completion_tokens", head.output, "phone"),
    number("good_tokens", head.goodTokens, "tablet"),
    {
      id: "cost",
      header: head.cost,
      accessorFn: (row) => Number(row.cost),
      cell: ({ row }) => cost(row.original.cost, data.currency),
      sortFn: "basic",
      meta: { end: true },
    },
  ];
}

interface Props {
  data: UsageSummary;
  group: UsageGroup;
  onOpen: (row: UsageRow) => void;
}

export function UsageTable({ data, group, onOpen }: Props) {
  const made = useMemo(() => columns(group, data), [group, data]);
  return (
    <Panel flush>
      <DataTable
        key={group}
        rows={data.rows}
        columns={made}
        rowId={(row) => row.key}
        label={words.groups[group]}
        onOpen={onOpen}
        empty={null}
        testId="usage-table"
      />
      <p className={classes.foot}>
        {isDeepest(group) ? words.opensRequests : words.opensDeeper}
        {data.truncated && ` ${words.truncated}`}
      </p>
    </Panel>
  );
}
