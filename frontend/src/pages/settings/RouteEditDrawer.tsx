import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import type { AlertRoute } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { useEditRoute } from "../../hooks/useAlerts";
import { t } from "../../i18n";
import { RouteFields, type RouteValues } from "./RouteFields";

interface FormProps {
  route: AlertRoute;
  edit: ReturnType<typeof useEditRoute>;
  onClose: () => void;
}

function Form({ route, edit, onClose }: FormProps) {
  const words = t.settings.routes;
  const { kind, name, target, events, enabled } = route;
  const form = useForm<RouteValues>({ initialValues: { tenant: "", kind, name, target, events, enabled } });
  const submit = form.onSubmit(({ tenant: _, kind: __, ...values }) =>
    edit.save(values, () => {
      notifications.show({ message: words.saved(values.name || values.target) });
      onClose();
    }),
  );
  return (
    <FormDrawer
      opened
      title={words.edit(name || target)}
      submit={t.actions.save}
      busy={edit.busy}
      error={edit.error}
      onSubmit={submit}
      onClose={onClose}
      testId="route-form"
    >
      <ConflictNotice
        edit={edit}
        fields={{
          name: words.name,
          target: words.target[kind] ?? "",
          events: words.events,
          enabled: words.enabled,
        }}
      />
      <RouteFields form={form} />
    </FormDrawer>
  );
}

/** Changes one route; its address is `?route=ID`. */
export function RouteEditDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const edit = useEditRoute(id);
  if (!edit.opened) return null;
  const close = () => {
    edit.reset();
    onClose();
  };
  return <Form key={`${id}-${edit.version}`} route={edit.opened} edit={edit} onClose={close} />;
}
