import { IconCpu } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Deployment, Replica } from "../../api/types";
import cell from "../../components/Cell.module.css";
import { CopyId } from "../../components/CopyId";
import { ACTIONS, type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Panel } from "../../components/Panel";
import { StateReason } from "../../components/StateReason";
import { TimeAgo } from "../../components/TimeAgo";
import { useReplicas } from "../../hooks/useReplicas";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { bytes, integer, milliseconds, NONE, percent } from "../../lib/format";
import classes from "./Deployments.module.css";

const words = t.deployments.replicaColumns;

function Links({ replica }: { replica: Replica }) {
  const { current } = useScope();
  const scope = current?.slug ?? "";
  return (
    <div className={classes.links}>
      <Link
        to="/t/$scope/decisions"
        params={{ scope }}
        search={{ replica: replica.id, range: "30d" }}
        className={cell.link}
        aria-label={words.whyNamed(replica.id)}
      >
        {words.why}
      </Link>
      <Link
        to="/t/$scope/deployments/$id"
        params={{ scope, id: replica.deployment }}
        search={{ tab: "logs", replica: replica.id }}
        className={cell.link}
        aria-label={words.logsNamed(replica.id)}
      >
        {t.deployments.tabs.logs}
      </Link>
    </div>
  );
}

/** Node and device; operators go on to the node's page, others have none. */
function Place({ replica: r }: { replica: Replica }) {
  const { current, operator } = useScope();
  if (!r.node) return NONE;
  return (
    <div className={cell.two}>
      {operator && r.node_id ? (
        <Link
          className={cell.link}
          to="/t/$scope/fleet/$id"
          params={{ scope: current?.slug ?? "", id: r.node_id }}
          search={{ device: r.device_id ?? undefined }}
        >
          {r.node}
        </Link>
      ) : (
        <span>{r.node}</span>
      )}
      {r.device && <span className={cell.sub}>{say(r.device)}</span>}
    </div>
  );
}

/** What it says of itself, where it runs. */
function Load({ replica }: { replica: Replica }) {
  const { stats } = replica;
  if (!stats) return NONE;
  const next = stats.predicted_ttft_ms;
  return (
    <span title={next === null ? undefined : words.ttft(milliseconds(next))}>
      {integer(stats.running)} <span className="muted">/ {integer(stats.queued)}</span>
    </span>
  );
}

function kvFree({ stats }: Replica): number | null {
  const total = stats?.kv_total_blocks;
  const free = stats?.kv_free_blocks;
  return total && free !== null && free !== undefined ? free / total : null;
}

const COLUMNS: Column<Replica>[] = [
  {
    id: "id",
    accessorFn: (r) => r.id,
    header: words.id,
    sortFn: "text",
    cell: ({ row }) => <CopyId id={row.original.id} short />,
  },
  {
    id: "state",
    accessorFn: (r) => r.state,
    header: words.state,
    sortFn: "text",
    cell: ({ row: { original: r } }) => (
      <StateReason state={r.state} reason={r.reason} note={r.stale && words.stale} />
    ),
  },
  {
    id: "node",
    accessorFn: (r) => r.node ?? "",
    header: words.node,
    sortFn: "text",
    meta: { hide: "phone" },
    cell: ({ row }) => <Place replica={row.original} />,
  },
  {
    id: "load",
    accessorFn: (r) => r.stats?.running ?? -1,
    header: words.load,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row }) => <Load replica={row.original} />,
  },
  {
    id: "kv",
    accessorFn: (r) => kvFree(r) ?? -1,
    header: words.kv,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row }) => percent(kvFree(row.original)),
  },
  {
    id: "restarts",
    accessorFn: (r) => r.restarts,
    header: words.restarts,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => integer(row.original.restarts),
  },
  {
    id: "memory",
    accessorFn: (r) => r.memory_used_bytes,
    header: words.memory,
    sortFn: "basic",
    meta: { end: true, hide: "tablet" },
    cell: ({ row: { original: r } }) => `${bytes(r.memory_used_bytes || null)} / ${bytes(r.memory_bytes)}`,
  },
  {
    id: "created",
    accessorFn: (r) => r.created_at,
    header: words.created,
    sortFn: "basic",
    meta: { hide: "tablet" },
    cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
  },
  {
    ...ACTIONS,
    cell: ({ row }) => <Links replica={row.original} />,
  },
];

export function DeploymentReplicas({ deployment }: { deployment: Deployment }) {
  const replicas = useReplicas(deployment.id);
  // Those that run come first; ended ones stay below with the reason they ended.
  const rows = useMemo(
    () => replicas.data?.toSorted((a, b) => Number(a.ended_at !== null) - Number(b.ended_at !== null)),
    [replicas.data],
  );
  if (replicas.error && !replicas.data)
    return <ErrorState error={replicas.error} retry={() => replicas.refetch()} />;
  return (
    <Panel flush>
      <DataTable
        label={t.deployments.tabs.replicas}
        rows={rows}
        columns={COLUMNS}
        rowId={(r) => r.id}
        testId="replicas"
        empty={
          <EmptyState
            icon={<IconCpu size={20} stroke={1.6} />}
            title={t.deployments.noReplicas}
            text={t.deployments.noReplicasText}
          />
        }
      />
    </Panel>
  );
}
