import { NumberInput, Switch, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { useEditQuota, useEditTenant } from "../../hooks/useTenantAdmin";
import { t } from "../../i18n";
import { bytes } from "../../lib/format";

const GIB = 2 ** 30;

interface FormProps {
  name: string;
  edit: ReturnType<typeof useEditQuota>;
  onClose: () => void;
}

const gib = (value: number | null | undefined) => Math.round(((value ?? 0) / GIB) * 100) / 100;

function Form({ name, edit, onClose }: FormProps) {
  const words = t.tenants.form;
  const quota = edit.opened;
  const form = useForm({
    initialValues: {
      limited: quota?.guaranteed_bytes !== null,
      guaranteed: gib(quota?.guaranteed_bytes),
      burst: gib(quota?.burst_bytes),
    },
  });
  const submit = form.onSubmit(({ limited, guaranteed, burst }) => {
    const sizes = {
      guaranteed_bytes: Math.round(Number(guaranteed) * GIB),
      burst_bytes: Math.round(Number(burst) * GIB),
    };
    edit.save(limited ? sizes : null, () => {
      notifications.show({ message: words.saved(name) });
      onClose();
    });
  });
  const size = { min: 0, suffix: " GiB", decimalScale: 2, disabled: !form.values.limited };
  return (
    <FormDrawer
      opened
      title={words.quotaTitle(name)}
      submit={t.actions.save}
      busy={edit.busy}
      error={edit.error}
      onSubmit={submit}
      onClose={onClose}
      testId="quota-form"
    >
      <ConflictNotice edit={edit} fields={{ guaranteed_bytes: words.guaranteed, burst_bytes: words.burst }} />
      <Text size="sm" c="dimmed">
        {t.tenants.capacityHint} {words.used(bytes(quota?.reserved_bytes))}
      </Text>
      <Switch label={words.limited} {...form.getInputProps("limited", { type: "checkbox" })} />
      <NumberInput
        label={words.guaranteed}
        description={words.guaranteedHint}
        {...size}
        {...form.getInputProps("guaranteed")}
      />
      <NumberInput
        label={words.burst}
        description={words.burstHint}
        {...size}
        {...form.getInputProps("burst")}
      />
    </FormDrawer>
  );
}

/** How much memory a tenant may reserve; its address is `?quota=ID`. */
export function QuotaDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const edit = useEditQuota(id);
  const tenant = useEditTenant(id);
  if (!edit.opened || !tenant.opened) return null;
  const close = () => {
    edit.reset();
    onClose();
  };
  return <Form key={`${id}-${edit.version}`} name={tenant.opened.name} edit={edit} onClose={close} />;
}
