import { Button, VisuallyHidden } from "@mantine/core";
import type { Key } from "../../api/types";
import type { Column } from "../../components/DataTable";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import { t } from "../../i18n";
import classes from "./Keys.module.css";

export function keyState(key: Key, nowMs: number = Date.now()): "active" | "revoked" | "expired" {
  if (key.revoked_at) return "revoked";
  return key.expires_at && new Date(key.expires_at).getTime() <= nowMs ? "expired" : "active";
}

export function keyColumns(revoke: ((key: Key) => void) | undefined): Column<Key>[] {
  const words = t.keys.columns;
  return [
    {
      id: "name",
      accessorFn: (k) => k.name,
      header: words.name,
      sortFn: "text",
      cell: ({ row }) => (
        <div className={classes.name}>
          <span>{row.original.name}</span>
          <span className={`mono muted ${classes.id}`}>
            {row.original.id}.…{row.original.hint}
          </span>
        </div>
      ),
    },
    {
      id: "state",
      accessorFn: (k) => keyState(k),
      header: words.state,
      sortFn: "text",
      cell: ({ row }) => <StatePill state={keyState(row.original)} />,
    },
    {
      id: "used",
      accessorFn: (k) => k.last_used_at ?? "",
      header: words.lastUsed,
      sortFn: "basic",
      meta: { hide: "phone" },
      cell: ({ row }) => <TimeAgo at={row.original.last_used_at} none={t.keys.never} />,
    },
    {
      id: "expires",
      accessorFn: (k) => k.expires_at ?? "9",
      header: words.expires,
      sortFn: "basic",
      meta: { hide: "tablet" },
      cell: ({ row }) => <TimeAgo at={row.original.expires_at} none={t.keys.noExpiry} />,
    },
    {
      id: "created",
      accessorFn: (k) => k.created_at,
      header: words.created,
      sortFn: "basic",
      meta: { hide: "tablet" },
      cell: ({ row }) => <TimeAgo at={row.original.created_at} />,
    },
    {
      id: "actions",
      header: () => <VisuallyHidden>{t.actions.column}</VisuallyHidden>,
      enableSorting: false,
      meta: { end: true },
      cell: ({ row }) =>
        revoke && keyState(row.original) === "active" ? (
          <Button
            size="compact-sm"
            variant="subtle"
            color="red"
            onClick={() => revoke(row.original)}
            aria-label={t.keys.revokeNamed(row.original.name)}
          >
            {t.keys.revoke}
          </Button>
        ) : null,
    },
  ];
}
