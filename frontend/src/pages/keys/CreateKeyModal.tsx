import { Button, Group, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { FormError } from "../../components/FormError";
import { LaterInDialog } from "../../components/Later";
import { RateLimitFields } from "../../components/RateLimitFields";
import { TenantSelect } from "../../components/TenantSelect";
import { useCreateKey } from "../../hooks/useKeys";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { limitsOf, NO_LIMITS } from "../../lib/rateLimits";
import { DeploymentsField } from "./DeploymentsField";
import { KeyCreated } from "./KeyCreated";

const DAY_MS = 86_400_000;
const EXPIRIES = ["7", "30", "90", "365", "never"] as const;
const SCOPES = ["inference", "management:read", "management"] as const;
type Scope = (typeof SCOPES)[number];

function expiresAt(days: string): string | null {
  return days === "never" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
}

/** Two steps in one window: say what the key may do, then see its token once. */
export function CreateKeyModal({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { current } = useScope();
  const create = useCreateKey();
  const form = useForm({
    initialValues: {
      name: "",
      days: "90",
      tenant: "",
      scope: "inference" as Scope,
      deployments: [] as string[],
      ...NO_LIMITS,
    },
    validate: { name: (value) => (value.trim() ? null : t.keys.nameNeeded) },
  });
  const tenant = current?.tenant ?? form.values.tenant;
  const close = () => {
    onClose();
    create.reset();
    form.reset();
  };
  const submit = form.onSubmit(({ name, days, scope, deployments, ...limits }) =>
    create.mutate({
      tenant,
      name: name.trim(),
      expires_at: expiresAt(days),
      scopes: [scope],
      deployments: scope === "inference" ? deployments : [],
      ...(scope === "inference" ? limitsOf(limits) : {}),
    }),
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
        <KeyCreated made={create.data} onDone={close} />
      ) : (
        <LaterInDialog>
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
                label={t.keys.scope}
                description={t.keys.scopes[form.values.scope].hint}
                data={SCOPES.map((value) => ({ value, label: t.keys.scopes[value].label }))}
                allowDeselect={false}
                {...form.getInputProps("scope")}
              />
              {form.values.scope === "inference" && (
                <DeploymentsField
                  tenant={tenant || undefined}
                  value={form.values.deployments}
                  onChange={(ids) => form.setFieldValue("deployments", ids)}
                />
              )}
              <Select
                label={t.keys.expiry}
                data={EXPIRIES.map((value) => ({ value, label: t.keys.expiries[value] ?? value }))}
                allowDeselect={false}
                {...form.getInputProps("days")}
              />
              {form.values.scope === "inference" && (
                <RateLimitFields hint={t.kit.limits.ofKey} inputProps={form.getInputProps} />
              )}
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
        </LaterInDialog>
      )}
    </Modal>
  );
}
