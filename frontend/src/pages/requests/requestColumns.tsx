import { Link } from "@tanstack/react-router";
import type { RequestLine } from "../../api/types";
import type { Column } from "../../components/DataTable";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { integer, milliseconds } from "../../lib/format";
import { Against } from "./Against";
import classes from "./Requests.module.css";
import { stateOf, verdictLabel } from "./verdict";

const words = t.requests.columns;

function Id({ row }: { row: RequestLine }) {
  const { current } = useScope();
  return (
    <Link
      className={`${classes.id} mono`}
      to="/t/$scope/requests/$id"
      params={{ scope: current?.slug ?? "", id: row.request_id }}
      title={row.request_id}
    >
      …{row.request_id.slice(-8)}
    </Link>
  );
}

export function requestColumns(tenantShown: boolean): Column<RequestLine>[] {
  return [
    {
      id: "arrived_at",
      header: words.when,
      meta: { order: "arrived_at" },
      cell: ({ row }) => (
        <div className={classes.when}>
          <TimeAgo at={row.original.arrived_at} />
          <Id row={row.original} />
        </div>
      ),
    },
    {
      id: "verdict",
      header: words.verdict,
      cell: ({ row }) => (
        <StatePill state={stateOf(row.original.verdict)} label={verdictLabel(row.original)} />
      ),
    },
    {
      id: "deployment",
      header: words.deployment,
      meta: { hide: "phone" },
      cell: ({ row }) => (
        <div>
          <div>{row.original.deployment_name}</div>
          <div className={classes.under}>
            {[tenantShown ? row.original.tenant_name : null, row.original.class_name, row.original.key_name]
              .filter(Boolean)
              .join(" · ")}
          </div>
        </div>
      ),
    },
    {
      id: "ttft",
      header: "TTFT",
      meta: { order: "ttft", end: true },
      cell: ({ row }) => <Against value={row.original.ttft_ms} limit={row.original.ttft_limit_ms} />,
    },
    {
      id: "tpot",
      header: "TPOT",
      meta: { order: "tpot", end: true, hide: "phone" },
      cell: ({ row }) => <Against value={row.original.tpot_ms} limit={row.original.tpot_limit_ms} />,
    },
    {
      id: "e2e",
      header: words.whole,
      meta: { order: "e2e", end: true, hide: "tablet" },
      cell: ({ row }) => milliseconds(row.original.e2e_ms),
    },
    {
      id: "prompt_tokens",
      header: words.prompt,
      meta: { order: "prompt_tokens", end: true, hide: "tablet" },
      cell: ({ row }) => (
        <>
          {integer(row.original.prompt_tokens)}
          <div className={classes.under}>{words.cached(integer(row.original.cached_tokens))}</div>
        </>
      ),
    },
    {
      id: "completion_tokens",
      header: words.output,
      meta: { order: "completion_tokens", end: true, hide: "tablet" },
      cell: ({ row }) => integer(row.original.completion_tokens),
    },
  ];
}
