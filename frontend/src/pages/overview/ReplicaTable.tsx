import { IconCpu } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import cell from "../../components/Cell.module.css";
import { type Column, DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Panel } from "../../components/Panel";
import { StatePill } from "../../components/StatePill";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { integer, percent } from "../../lib/format";
import { useLive } from "../../live/LiveProvider";
import type { LiveReplica } from "../../live/types";

function DeploymentLink({ replica }: { replica: LiveReplica }) {
  const { current } = useScope();
  return (
    <Link
      className={cell.link}
      to="/t/$scope/deployments/$id"
      params={{ scope: current?.slug ?? "", id: replica.deployment_id }}
    >
      {replica.deployment}
    </Link>
  );
}

const words = t.overview.replicas;

const COLUMNS: Column<LiveReplica>[] = [
  {
    id: "deployment",
    accessorFn: (r) => r.deployment,
    header: words.deployment,
    sortFn: "text",
    cell: ({ row }) => <DeploymentLink replica={row.original} />,
  },
  {
    id: "id",
    accessorFn: (r) => r.id,
    header: words.replica,
    sortFn: "text",
    meta: { hide: "phone" },
    cell: ({ row }) => <span className="mono muted">{row.original.id}</span>,
  },
  {
    id: "state",
    accessorFn: (r) => r.state,
    header: words.state,
    sortFn: "text",
    cell: ({ row }) => <StatePill state={row.original.state} />,
  },
  {
    id: "running",
    accessorFn: (r) => r.running ?? 0,
    header: words.running,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row }) => integer(row.original.running),
  },
  {
    id: "queued",
    accessorFn: (r) => r.queued ?? 0,
    header: words.queued,
    sortFn: "basic",
    meta: { end: true },
    cell: ({ row }) => integer(row.original.queued),
  },
  {
    id: "kv",
    accessorFn: (r) => r.kv_free ?? 0,
    header: words.kvFree,
    sortFn: "basic",
    meta: { end: true, hide: "phone" },
    cell: ({ row }) => percent(row.original.kv_free),
  },
];

export function ReplicaTable({ deployment }: { deployment: string | undefined }) {
  const { windows } = useLive();
  const rows = windows.at(-1)?.replicas.filter((r) => !deployment || r.deployment_id === deployment);
  return (
    <Panel title={words.title} hint={words.hint} flush>
      <DataTable
        label={words.title}
        rows={rows}
        columns={COLUMNS}
        rowId={(r) => r.id}
        testId="live-replicas"
        empty={<NoReplica />}
      />
    </Panel>
  );
}

/** A tenant sees its own only: what it is granted by contract runs on replicas of the platform. */
function NoReplica() {
  const { current } = useScope();
  const own = current?.tenant !== undefined;
  return (
    <EmptyState
      icon={<IconCpu size={20} stroke={1.6} />}
      title={own ? words.emptyOwn : words.empty}
      text={own ? words.emptyOwnText : words.emptyText}
    />
  );
}
