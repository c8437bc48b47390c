import type { AuditEvent } from "../../api/types";
import type { Column } from "../../components/DataTable";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import { changes } from "../../lib/changes";
import classes from "./Audit.module.css";
import { actionWords, actorWords } from "./actions";

const SHOWN = 3;

/** What a row says was changed: the first fields, and how many more. */
function Changed({ event }: { event: AuditEvent }) {
  if (!event.before && event.after) return <span className="muted">{t.audit.created}</span>;
  if (event.before && !event.after) return <span className="muted">{t.audit.deleted}</span>;
  const fields = changes(event.before, event.after).map((one) => one.field);
  const more = fields.length - SHOWN;
  return (
    <span className={`mono muted ${classes.changed}`}>
      {fields.slice(0, SHOWN).join(", ")}
      {more > 0 && ` +${more}`}
    </span>
  );
}

/** A name the object itself has, else its id. A contract has none: it is a tenant's on a deployment. */
function objectName(event: AuditEvent, tenant: string | undefined): string {
  if (event.object_type === "contract" && event.object_name)
    return tenant ? t.audit.contractOf(event.object_name, tenant) : event.object_name;
  for (const state of [event.after, event.before]) {
    const name = state?.name ?? state?.email ?? state?.key;
    if (typeof name === "string" && name) return name;
  }
  const name = event.object_name;
  if (event.object_type === "replica" && name) return `${name} · …${event.object_id.slice(-8)}`;
  return name || event.object_id;
}

/** `names`: of tenants, by their id; `ofTenants`: with a column that says whose each event is. */
export function auditColumns(names: Map<string, string>, ofTenants: boolean): Column<AuditEvent>[] {
  const words = t.audit.columns;
  const columns: Column<AuditEvent>[] = [
    {
      id: "when",
      header: words.when,
      meta: { order: "created_at" },
      cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
    },
    {
      id: "who",
      header: words.who,
      meta: { order: "actor", hide: "phone" },
      cell: ({ row }) => <span className={classes.who}>{actorWords(row.original.actor)}</span>,
    },
    {
      id: "what",
      header: words.what,
      meta: { order: "action" },
      cell: ({ row }) => (
        <span className={classes.what}>
          <span>{actionWords(row.original.action)}</span>
          <span className={classes.object}>{objectName(row.original, names.get(row.original.tenant))}</span>
        </span>
      ),
    },
    {
      id: "changed",
      header: words.changed,
      meta: { hide: "tablet" },
      cell: ({ row }) => <Changed event={row.original} />,
    },
  ];
  if (ofTenants)
    columns.splice(3, 0, {
      id: "tenant",
      header: words.tenant,
      meta: { hide: "tablet" },
      cell: ({ row }) => names.get(row.original.tenant) ?? <span className="muted">{t.scope.platform}</span>,
    });
  return columns;
}
