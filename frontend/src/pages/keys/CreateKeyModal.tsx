import { Button, Group, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { FormError } from "../../components/FormError";
import { TenantSelect } from "../../components/TenantSelect";
import { useCreateKey } from "../../hooks/useKeys";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { KeyCreated } from "./KeyCreated";

const DAY_MS = 86_400_000;
const EXPIRIES = ["7", "30", "90", "365", "never"] as const;

function expiresAt(days: string): string | null {
  return days === "never" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
}

/** Two steps in one window: name the key, then see its token once. */
export function CreateKeyModal({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { current } = useScope();
  const create = useCreateKey();
  const form = useForm({
    initialValues: { name: "", days: "90", tenant: "" },
    validate: { name: (value) => (value.trim() ? null : t.keys.nameNeeded) },
  });
  const close = () => {
    onClose();
    create.reset();
    form.reset();
  };
  const submit = form.onSubmit(({ name, days, tenant }) =>
    create.mutate({ tenant: current?.tenant ?? tenant, name: name.trim(), expires_at: expiresAt(days) }),
  );
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={create.data ? t.keys.created : t.keys.create}
      size={create.data ? "lg" : "md"}
      closeOnClickOutside={!create.data}
    >
      {create.data ? (
        <KeyCreated token={create.data.token} onDone={close} />
      ) : (
        <form onSubmit={submit} data-testid="create-key-form">
          <Stack gap="sm">
            {!current?.tenant && <TenantSelect {...form.getInputProps("tenant")} />}
            <TextInput
              label={t.keys.name}
              description={t.keys.nameHint}
              placeholder={t.keys.namePlaceholder}
              data-autofocus
              maxLength={120}
              {...form.getInputProps("name")}
            />
            <Select
              label={t.keys.expiry}
              data={EXPIRIES.map((value) => ({ value, label: t.keys.expiries[value] }))}
              allowDeselect={false}
              {...form.getInputProps("days")}
            />
          </Stack>
          <FormError error={create.error} />
          <Group justify="flex-end" mt="lg" gap="xs">
            <Button variant="default" onClick={close}>
              {t.actions.cancel}
            </Button>
            <Button type="submit" loading={create.isPending}>
              {t.keys.submit}
            </Button>
          </Group>
        </form>
      )}
    </Modal>
  );
}
