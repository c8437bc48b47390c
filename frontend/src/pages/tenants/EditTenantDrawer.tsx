import { NumberInput, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import type { Tenant } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { CopyId } from "../../components/CopyId";
import { Facts } from "../../components/Facts";
import { FormDrawer } from "../../components/FormDrawer";
import { RateLimitFields } from "../../components/RateLimitFields";
import { useEditTenant } from "../../hooks/useTenantAdmin";
import { t } from "../../i18n";
import { absolute } from "../../lib/format";
import { limitsOf, limitValues } from "../../lib/rateLimits";

interface FormProps {
  tenant: Tenant;
  edit: ReturnType<typeof useEditTenant>;
  onClose: () => void;
}

function Form({ tenant, edit, onClose }: FormProps) {
  const words = t.tenants.form;
  const form = useForm({
    initialValues: {
      name: tenant.name,
      weight: tenant.weight,
      admits_uncounted: tenant.admits_uncounted,
      ...limitValues(tenant),
    },
    validate: { name: (name) => (name.trim() ? null : words.nameNeeded) },
  });
  const submit = form.onSubmit((values) =>
    edit.save({ ...values, ...limitsOf(values) }, () => {
      notifications.show({ message: words.saved(values.name) });
      onClose();
    }),
  );
  return (
    <FormDrawer
      opened
      title={words.editTitle(tenant.name)}
      submit={t.actions.save}
      busy={edit.busy}
      error={edit.error}
      onSubmit={submit}
      onClose={onClose}
      testId="tenant-form"
    >
      <ConflictNotice
        edit={edit}
        fields={{
          name: words.name,
          weight: words.weight,
          admits_uncounted: words.uncounted,
          ...t.kit.limits.fields,
          ...t.kit.budgets.fields,
        }}
      />
      <Facts
        rows={[
          { label: "Id", value: <CopyId id={tenant.id} /> },
          { label: words.slug, value: tenant.slug },
          { label: t.tenants.columns.created, value: absolute(tenant.created_at) },
        ]}
      />
      <TextInput label={words.name} maxLength={120} data-autofocus {...form.getInputProps("name")} />
      <NumberInput
        label={words.weight}
        description={words.weightHint}
        min={1}
        max={1000}
        {...form.getInputProps("weight")}
      />
      <RateLimitFields hint={t.kit.limits.ofTenant} inputProps={form.getInputProps} />
      <Switch
        label={words.uncounted}
        description={words.uncountedHint}
        {...form.getInputProps("admits_uncounted", { type: "checkbox" })}
      />
    </FormDrawer>
  );
}

/** Changes a tenant's name, weight and limits; its address is `?edit=ID`. */
export function EditTenantDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const edit = useEditTenant(id);
  if (!edit.opened) return null;
  const close = () => {
    edit.reset();
    onClose();
  };
  return <Form key={`${id}-${edit.version}`} tenant={edit.opened} edit={edit} onClose={close} />;
}
