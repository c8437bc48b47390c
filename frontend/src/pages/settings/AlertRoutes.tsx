import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconBell, IconPlus } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import type { AlertRoute } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Panel } from "../../components/Panel";
import { useAlertRoutes, useDeleteRoute, useTestRoute } from "../../hooks/useAlerts";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { RouteCreateDrawer } from "./RouteCreateDrawer";
import { RouteEditDrawer } from "./RouteEditDrawer";
import { routeColumns } from "./routeColumns";

export function AlertRoutes() {
  const { current } = useScope();
  const { values, set } = useUrl();
  const routes = useAlertRoutes(current?.tenant);
  const test = useTestRoute();
  const deletion = useDeleteRoute();
  const [deleting, setDeleting] = useState<AlertRoute | null>(null);
  const words = t.settings.routes;
  const columns = useMemo(
    () =>
      routeColumns({
        test: (route) =>
          test.mutate(route.id, {
            onSuccess: () => notifications.show({ message: t.settings.routes.tested }),
            onError: (error) => notifications.show({ message: error.message, color: "red" }),
          }),
        edit: (route) => set({ route: route.id }, true),
        remove: setDeleting,
      }),
    [test.mutate, set],
  );
  const add = (
    <Button
      leftSection={<IconPlus size={16} />}
      onClick={() => set({ route: "new" }, true)}
      data-testid="add-route"
    >
      {words.create}
    </Button>
  );
  const close = () => set({ route: undefined });
  const remove = () => {
    if (!deleting) return;
    deletion.mutate(
      { shown: deleting, body: undefined },
      {
        onSuccess: () => {
          notifications.show({ message: words.deleted(deleting.name || deleting.target) });
          setDeleting(null);
        },
      },
    );
  };
  return (
    <>
      <Panel flush title={words.title} aside={routes.data?.length ? add : undefined}>
        {routes.error && !routes.data ? (
          <ErrorState error={routes.error} retry={() => void routes.refetch()} />
        ) : (
          <DataTable
            rows={routes.data}
            columns={columns}
            rowId={(route) => route.id}
            label={words.title}
            testId="alert-routes"
            empty={
              <EmptyState
                icon={<IconBell size={20} stroke={1.6} />}
                title={words.empty}
                text={words.emptyText}
              >
                {add}
              </EmptyState>
            }
          />
        )}
      </Panel>
      <RouteCreateDrawer opened={values.route === "new"} onClose={close} />
      <RouteEditDrawer id={values.route === "new" ? undefined : values.route} onClose={close} />
      <ConfirmModal
        opened={deleting !== null}
        title={words.deleteTitle(deleting?.name || deleting?.target || "")}
        text={words.deleteText}
        action={t.actions.delete}
        danger
        busy={deletion.isPending}
        error={deletion.error}
        onConfirm={remove}
        onClose={() => setDeleting(null)}
      />
    </>
  );
}
