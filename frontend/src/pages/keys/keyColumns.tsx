import { Menu } from "@mantine/core";
import { IconBan, IconPencil, IconRefresh } from "@tabler/icons-react";
import type { Key } from "../../api/types";
import { budgetColumn } from "../../components/budgetColumn";
import { CopyId } from "../../components/CopyId";
import { ACTIONS, type Column } from "../../components/DataTable";
import { ObjectMenu } from "../../components/ObjectMenu";
import { StatePill } from "../../components/StatePill";
import { TimeAgo } from "../../components/TimeAgo";
import type { BudgetsByHolder } from "../../hooks/useBudgets";
import { t } from "../../i18n";
import { limitsLine } from "../../lib/rateLimits";
import classes from "./Keys.module.css";
import { keyState } from "./keyState";

export interface KeyVerbs {
  mayChange: (key: Key) => boolean;
  edit: (key: Key) => void;
  rotate: (key: Key) => void;
  revoke: (key: Key) => void;
}

/** What a key may do, and on what. */
function May({ apiKey }: { apiKey: Key }) {
  const scopes = apiKey.scopes.map((scope) => t.keys.scopes[scope].label).join(", ");
  const count = apiKey.deployments.length;
  const limits = limitsLine(apiKey);
  return (
    <span className={classes.two}>
      <span>{scopes}</span>
      {count > 0 && <span className={classes.note}>{t.keys.restricted(count)}</span>}
      {limits && <span className={classes.note}>{limits}</span>}
    </span>
  );
}

function KeyMenu({ apiKey, verbs }: { apiKey: Key; verbs: KeyVerbs }) {
  const icon = { size: 15, stroke: 1.6 };
  return (
    <ObjectMenu label={t.keys.menu(apiKey.name)} testId="key-menu">
      <Menu.Item leftSection={<IconPencil {...icon} />} onClick={() => verbs.edit(apiKey)}>
        {t.keys.edit}
      </Menu.Item>
      <Menu.Item leftSection={<IconRefresh {...icon} />} onClick={() => verbs.rotate(apiKey)}>
        {t.keys.rotate}
      </Menu.Item>
      <Menu.Item color="red" leftSection={<IconBan {...icon} />} onClick={() => verbs.revoke(apiKey)}>
        {t.keys.revoke}
      </Menu.Item>
    </ObjectMenu>
  );
}

export function keyColumns(verbs: KeyVerbs, budgets: BudgetsByHolder): Column<Key>[] {
  const words = t.keys.columns;
  return [
    {
      id: "name",
      header: words.name,
      meta: { order: "name" },
      cell: ({ row: { original: key } }) => (
        <div className={classes.name}>
          <span>{key.name}</span>
          <CopyId id={key.id} short />
          {key.previous_until && new Date(key.previous_until).getTime() > Date.now() && (
            <span className={classes.note}>
              {t.keys.previousUntil} <TimeAgo at={key.previous_until} />
            </span>
          )}
        </div>
      ),
    },
    {
      id: "state",
      header: words.state,
      cell: ({ row }) => <StatePill state={keyState(row.original)} />,
    },
    {
      id: "may",
      header: t.keys.scope,
      meta: { hide: "phone" },
      cell: ({ row }) => <May apiKey={row.original} />,
    },
    budgetColumn(budgets),
    {
      id: "used",
      header: words.lastUsed,
      meta: { order: "last_used_at", hide: "phone" },
      cell: ({ row }) => <TimeAgo at={row.original.last_used_at} none={t.keys.never} />,
    },
    {
      id: "expires",
      header: words.expires,
      meta: { order: "expires_at", hide: "tablet" },
      cell: ({ row }) => <TimeAgo at={row.original.expires_at} none={t.keys.noExpiry} />,
    },
    {
      id: "created",
      header: words.created,
      meta: { order: "created_at", hide: "tablet" },
      cell: ({ row: { original: key } }) => (
        <span className={classes.two}>
          <TimeAgo at={key.created_at} />
          {key.created_by && <span className={classes.note}>{t.keys.by(key.created_by)}</span>}
        </span>
      ),
    },
    {
      ...ACTIONS,
      cell: ({ row: { original: key } }) =>
        verbs.mayChange(key) ? <KeyMenu apiKey={key} verbs={verbs} /> : null,
    },
  ];
}
