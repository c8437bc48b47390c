import type { PlanLine } from "../../api/fleet";
import type { Column } from "../../components/DataTable";
import { TimeAgo } from "../../components/TimeAgo";
import { say, t } from "../../i18n";
import { decimal, integer, percent } from "../../lib/format";
import { PlanKind, PlanState } from "./PlanPills";
import classes from "./Plans.module.css";

const words = t.plans.columns;

/** `open` shows the plan that a row's button is about. */
export function planColumns(open: (id: string) => void): Column<PlanLine>[] {
  return [
    {
      id: "at",
      accessorFn: (p) => p.at,
      header: words.at,
      meta: { order: "at" },
      cell: ({ row }) => <TimeAgo at={row.original.at} />,
    },
    {
      id: "kind",
      accessorFn: (p) => p.kind,
      header: words.kind,
      meta: { hide: "phone" },
      cell: ({ row }) => <PlanKind kind={row.original.kind} />,
    },
    {
      id: "why",
      accessorFn: (p) => p.why,
      header: words.why,
      cell: ({ row: { original: p } }) => (
        <div className={classes.what}>
          <button
            type="button"
            className={classes.link}
            aria-label={t.plans.open(say(p.why))}
            onClick={() => open(p.id)}
          >
            {say(p.why)}
          </button>
          {p.count > 1 && (
            <span className={`${classes.note} num`}>
              {t.plans.repeated(integer(p.count))} <TimeAgo at={p.last_at} />
            </span>
          )}
          {p.pending_total > 0 && (
            <span className={`${classes.note} num`}>{t.plans.pendingCount(p.pending_total)}</span>
          )}
        </div>
      ),
    },
    {
      id: "state",
      accessorFn: (p) => p.state,
      header: words.state,
      meta: { hide: "tablet" },
      cell: ({ row }) => <PlanState plan={row.original} />,
    },
    {
      id: "moves",
      accessorFn: (p) => p.moves,
      header: words.moves,
      meta: { order: "moves", end: true, hide: "phone" },
      cell: ({ row }) => integer(row.original.moves),
    },
    {
      id: "gpus",
      accessorFn: (p) => p.objective,
      header: words.objective,
      meta: { end: true, hide: "tablet" },
      cell: ({ row: { original: p } }) => (
        <>
          {decimal(p.objective)} <span className="muted">/ {decimal(p.bound)}</span>
        </>
      ),
    },
    {
      id: "gap",
      accessorFn: (p) => p.gap,
      header: words.gap,
      meta: { order: "gap", end: true, hide: "tablet" },
      cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}>{percent(row.original.gap)}</span>,
    },
  ];
}
