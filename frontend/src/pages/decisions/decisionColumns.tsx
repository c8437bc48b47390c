import type { Decision } from "../../api/fleet";
import type { Column } from "../../components/DataTable";
import { TimeAgo } from "../../components/TimeAgo";
import { say, t } from "../../i18n";
import { integer, NONE } from "../../lib/format";
import classes from "./Decisions.module.css";
import { KindPill } from "./KindPill";

const words = t.decisions.columns;

/** `open` shows the decision that a row's button is about. */
export function decisionColumns(open: (id: string) => void): Column<Decision>[] {
  return [
    {
      id: "at",
      accessorFn: (d) => d.at,
      header: words.at,
      meta: { order: "at" },
      cell: ({ row }) => <TimeAgo at={row.original.at} />,
    },
    {
      id: "kind",
      accessorFn: (d) => d.kind,
      header: words.kind,
      meta: { hide: "phone" },
      cell: ({ row }) => <KindPill kind={row.original.kind} />,
    },
    {
      id: "summary",
      accessorFn: (d) => d.summary,
      header: words.summary,
      cell: ({ row: { original: d } }) => (
        <div className={classes.what}>
          <button
            type="button"
            className={classes.link}
            aria-label={t.decisions.detail.open(say(d.summary))}
            onClick={() => open(d.id)}
          >
            {say(d.summary)}
          </button>
          <span className={classes.why}>{say(d.why)}</span>
          {d.count > 1 && (
            <span className={`${classes.sub} num`}>
              {t.decisions.detail.repeated(integer(d.count))} <TimeAgo at={d.last_at} />
            </span>
          )}
        </div>
      ),
    },
    {
      id: "deployment",
      accessorFn: (d) => d.deployment_name,
      header: words.deployment,
      meta: { hide: "tablet" },
      cell: ({ row }) => row.original.deployment_name,
    },
    {
      id: "node",
      accessorFn: (d) => d.node_name,
      header: words.node,
      meta: { hide: "tablet" },
      cell: ({ row }) => row.original.node_name || NONE,
    },
  ];
}
