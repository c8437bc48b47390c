import { VisuallyHidden } from "@mantine/core";
import { IconCpu } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Deployment, Replica } from "../../api/types";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { useReplicas } from "../../hooks/useReplicas";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { bytes, integer, NONE } from "../../lib/format";
import classes from "./Deployments.module.css";

const words = t.deployments.replicaColumns;

function LogsLink({ replica }: { replica: Replica }) {
  const { current } = useScope();
  return (
    <Link
      to="/t/$scope/deployments/$id"
      params={{ scope: current?.slug ?? "", id: replica.deployment }}
      search={{ tab: "logs", replica: replica.id }}
      className={classes.link}
    >
      {t.deployments.tabs.logs}
    </Link>
  );
}

const COLUMNS: Column<Replica>[] = [
  {
    id: "id",
    accessorFn: (r) => r.id,
    header: words.id,
    sortFn: "text",
    cell: ({ row }) => <span className="mono">{row.original.id}</span>,
  },
  {
    id: "state",
    accessorFn: (r) => r.state,
    header: words.state,
    sortFn: "text",
    cell: ({ row: { original: r } }) => (
      <div className={classes.state}>
        <StatePill state={r.state} />
        {r.reason && (
          <span className={classes.reason} title={r.reason}>
            {r.reason}
          </span>
        )}
      </div>
    ),
  },
  {
    id: "node",
    accessorFn: (r) => r.node ?? "",
    header: words.node,
    sortFn: "text",
    meta: { hide: "phone" },
    cell: ({ row }) =>
      row.original.node
        ? `${row.original.node}${row.original.device ? ` · ${row.original.device}` : ""}`
        : NONE,
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
    id: "logs",
    header: () => <VisuallyHidden>{t.actions.column}</VisuallyHidden>,
    enableSorting: false,
    meta: { end: true },
    cell: ({ row }) => <LogsLink replica={row.original} />,
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
