import { Link } from "@tanstack/react-router";
import type { Deployment } from "../../api/types";
import cell from "../../components/Cell.module.css";
import { ACTIONS, type Column } from "../../components/DataTable";
import { StateReason } from "../../components/StateReason";
import { TimeAgo } from "../../components/TimeAgo";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { DeploymentMenu } from "./DeploymentMenu";
import classes from "./Deployments.module.css";
import { LiveAttainment } from "./LiveAttainment";

const words = t.deployments.columns;

function Name({ deployment }: { deployment: Deployment }) {
  const { current } = useScope();
  return (
    <div className={cell.two}>
      <Link
        className={cell.link}
        to="/t/$scope/deployments/$id"
        params={{ scope: current?.slug ?? "", id: deployment.id }}
      >
        {deployment.name}
      </Link>
      <span className={cell.sub}>{deployment.model.name}</span>
      <OwnerBadge deployment={deployment} />
    </div>
  );
}

/** Says so where a deployment is the platform's, or is used by contract only. */
export function OwnerBadge({ deployment }: { deployment: Deployment }) {
  if (deployment.access === "contract") return <span className={classes.badge}>{t.deployments.granted}</span>;
  if (deployment.owner === "platform")
    return <span className={classes.badge}>{t.deployments.ofPlatform}</span>;
  return null;
}

const NAME: Column<Deployment> = {
  id: "name",
  accessorFn: (d) => d.name,
  header: words.name,
  sortFn: "text",
  meta: { order: "name" },
  cell: ({ row }) => <Name deployment={row.original} />,
};

const TENANT: Column<Deployment> = {
  id: "tenant",
  accessorFn: (d) => d.tenant.name,
  header: words.tenant,
  sortFn: "text",
  meta: { hide: "phone", order: "tenant" },
  cell: ({ row }) => row.original.tenant.name,
};

const REST: Column<Deployment>[] = [
  {
    id: "state",
    accessorFn: (d) => d.state.state,
    header: words.state,
    sortFn: "text",
    cell: ({ row: { original: d } }) => <StateReason state={d.state.state} reason={d.state.reason} />,
  },
  {
    id: "class",
    accessorFn: (d) => d.service_class.name,
    header: words.class,
    sortFn: "text",
    meta: { hide: "phone", order: "service_class" },
    cell: ({ row }) => row.original.service_class.name,
  },
  {
    id: "attainment",
    header: words.attainment,
    enableSorting: false,
    meta: { hide: "tablet", end: true },
    cell: ({ row }) => <LiveAttainment deployment={row.original.id} />,
  },
  {
    id: "replicas",
    accessorFn: (d) => d.state.ready,
    header: words.replicas,
    sortFn: "basic",
    meta: { end: true, hide: "phone", order: "replica_count" },
    cell: ({ row: { original: d } }) => (
      <span className="num">
        {d.state.ready} <span className="muted">/ {d.state.wanted}</span>
      </span>
    ),
  },
  {
    id: "created",
    accessorFn: (d) => d.created_at,
    header: words.created,
    sortFn: "basic",
    meta: { hide: "tablet", order: "created_at" },
    cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
  },
  {
    ...ACTIONS,
    cell: ({ row }) => <DeploymentMenu deployment={row.original} />,
  },
];

export function deploymentColumns(withTenant: boolean): Column<Deployment>[] {
  return withTenant ? [NAME, TENANT, ...REST] : [NAME, ...REST];
}
