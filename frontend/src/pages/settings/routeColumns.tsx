import { Menu } from "@mantine/core";
import { IconPencil, IconSend, IconTrash } from "@tabler/icons-react";
import type { AlertRoute } from "../../api/types";
import { ACTIONS, type Column } from "../../components/DataTable";
import { ObjectMenu } from "../../components/ObjectMenu";
import { TimeAgo } from "../../components/TimeAgo";
import { say, t } from "../../i18n";
import classes from "./Settings.module.css";

interface Verbs {
  test: (route: AlertRoute) => void;
  edit: (route: AlertRoute) => void;
  remove: (route: AlertRoute) => void;
}

function RouteMenu({ route, verbs }: { route: AlertRoute; verbs: Verbs }) {
  const words = t.settings.routes;
  return (
    <ObjectMenu label={words.menu(route.name || route.target)}>
      <Menu.Item leftSection={<IconSend size={15} stroke={1.6} />} onClick={() => verbs.test(route)}>
        {words.test}
      </Menu.Item>
      <Menu.Item leftSection={<IconPencil size={15} stroke={1.6} />} onClick={() => verbs.edit(route)}>
        {t.actions.edit}
      </Menu.Item>
      <Menu.Item
        color="red"
        leftSection={<IconTrash size={15} stroke={1.6} />}
        onClick={() => verbs.remove(route)}
      >
        {t.actions.delete}
      </Menu.Item>
    </ObjectMenu>
  );
}

function Delivery({ route }: { route: AlertRoute }) {
  const last = route.last_delivery;
  const words = t.settings.routes;
  if (!last) return <span className="muted">{words.never}</span>;
  return (
    <span className={classes.delivery}>
      <span>
        {words.deliveries[last.state] ?? last.state} <TimeAgo at={last.at} />
      </span>
      {last.error && <span className={classes.note}>{say(last.error)}</span>}
    </span>
  );
}

export function routeColumns(verbs: Verbs): Column<AlertRoute>[] {
  const words = t.settings.routes;
  return [
    {
      id: "name",
      accessorFn: (route) => route.name || route.target,
      header: words.columns.name,
      sortFn: "text",
      cell: ({ row: { original: route } }) => (
        <span className={classes.route}>
          <span>
            {route.name || words.kinds[route.kind]} {!route.enabled && `(${words.off})`}
          </span>
          <span className={classes.note}>
            {words.kinds[route.kind]} · {route.target}
          </span>
        </span>
      ),
    },
    {
      id: "events",
      header: words.columns.events,
      enableSorting: false,
      meta: { hide: "tablet" },
      cell: ({ row }) =>
        row.original.events.map((event) => words.rules[event] ?? event).join(", ") || words.allEvents,
    },
    {
      id: "delivery",
      header: words.columns.delivery,
      enableSorting: false,
      meta: { hide: "phone" },
      cell: ({ row }) => <Delivery route={row.original} />,
    },
    {
      ...ACTIONS,
      cell: ({ row }) => <RouteMenu route={row.original} verbs={verbs} />,
    },
  ];
}
