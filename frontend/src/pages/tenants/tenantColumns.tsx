import { Menu } from "@mantine/core";
import {
  IconAdjustments,
  IconDatabase,
  IconExternalLink,
  IconPlayerPause,
  IconPlayerPlay,
} from "@tabler/icons-react";
import type { Tenant } from "../../api/types";
import { budgetColumn } from "../../components/budgetColumn";
import { ACTIONS, type Column } from "../../components/DataTable";
import { Hint } from "../../components/Hint";
import { Meter } from "../../components/Meter";
import { ObjectMenu } from "../../components/ObjectMenu";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import type { BudgetsByHolder } from "../../hooks/useBudgets";
import { t } from "../../i18n";
import { bytes, integer } from "../../lib/format";
import { limitsLine } from "../../lib/rateLimits";
import classes from "./Tenants.module.css";

export interface TenantVerbs {
  open: (tenant: Tenant) => void;
  edit: (tenant: Tenant) => void;
  quota: (tenant: Tenant) => void;
  suspend: (tenant: Tenant) => void;
}

/** What its deployments reserve, against guaranteed and lent memory; the mark is where lending begins. */
function Capacity({ tenant }: { tenant: Tenant }) {
  const { quota, reserved_bytes: used } = tenant;
  if (!quota)
    return (
      <span className="num">
        {bytes(used)} <span className="muted">({t.tenants.noLimit})</span>
      </span>
    );
  const limit = quota.guaranteed_bytes + quota.burst_bytes;
  const lent = Math.max(0, used - quota.guaranteed_bytes);
  const label = t.tenants.reservedOf(bytes(used), bytes(limit));
  return (
    <div className={classes.capacity}>
      <span className="num">
        {label} {lent > 0 && <span className="muted">· {t.tenants.burstOf(bytes(lent))}</span>}
      </span>
      <Meter
        value={limit ? used / limit : 0}
        mark={limit && quota.burst_bytes ? quota.guaranteed_bytes / limit : undefined}
        tone={lent > 0 ? "late" : "accent"}
        label={label}
      />
    </div>
  );
}

function TenantMenu({ tenant, verbs }: { tenant: Tenant; verbs: TenantVerbs }) {
  const words = t.tenants;
  const icon = { size: 15, stroke: 1.6 };
  return (
    <ObjectMenu label={words.menu(tenant.name)} testId="tenant-menu">
      <Menu.Item leftSection={<IconExternalLink {...icon} />} onClick={() => verbs.open(tenant)}>
        {words.open}
      </Menu.Item>
      <Menu.Item leftSection={<IconAdjustments {...icon} />} onClick={() => verbs.edit(tenant)}>
        {words.edit}
      </Menu.Item>
      <Menu.Item leftSection={<IconDatabase {...icon} />} onClick={() => verbs.quota(tenant)}>
        {words.quota}
      </Menu.Item>
      <Menu.Item
        leftSection={tenant.suspended_at ? <IconPlayerPlay {...icon} /> : <IconPlayerPause {...icon} />}
        onClick={() => verbs.suspend(tenant)}
      >
        {tenant.suspended_at ? words.resume : words.suspend}
      </Menu.Item>
    </ObjectMenu>
  );
}

export function tenantColumns(verbs: TenantVerbs, budgets: BudgetsByHolder): Column<Tenant>[] {
  const words = t.tenants.columns;
  return [
    {
      id: "name",
      header: words.name,
      meta: { order: "name" },
      cell: ({ row }) => (
        <span className={classes.name}>
          <span>{row.original.name}</span>
          <span className={classes.slug}>{row.original.slug}</span>
        </span>
      ),
    },
    {
      id: "state",
      header: words.state,
      meta: { hide: "phone" },
      cell: ({ row }) => <StatePill state={row.original.suspended_at ? "suspended" : "active"} />,
    },
    {
      id: "capacity",
      header: () => (
        <span className={classes.head}>
          {words.capacity} <Hint text={t.tenants.capacityHint} />
        </span>
      ),
      cell: ({ row }) => <Capacity tenant={row.original} />,
    },
    {
      id: "weight",
      header: words.weight,
      meta: { order: "weight", hide: "tablet", end: true },
      cell: ({ row }) => integer(row.original.weight),
    },
    {
      id: "limits",
      header: words.limits,
      meta: { hide: "tablet" },
      cell: ({ row }) => limitsLine(row.original) || <span className="muted">{t.tenants.noLimit}</span>,
    },
    budgetColumn(budgets),
    {
      id: "created",
      header: words.created,
      meta: { order: "created_at", hide: "tablet" },
      cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
    },
    {
      ...ACTIONS,
      cell: ({ row }) => <TenantMenu tenant={row.original} verbs={verbs} />,
    },
  ];
}
