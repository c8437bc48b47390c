import { Button, Group, Modal, SegmentedControl, Select, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { CodeBlock } from "../../components/CodeBlock";
import { FormDrawer } from "../../components/FormDrawer";
import { useCreateRoute } from "../../hooks/useAlerts";
import { tenantOptions, useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { RouteFields, type RouteValues } from "./RouteFields";

const NEW: RouteValues = { tenant: "", kind: "webhook", name: "", target: "", events: [], enabled: true };

/** A webhook's signing secret, seen this once. */
function Secret({ secret, onClose }: { secret: string | null; onClose: () => void }) {
  return (
    <Modal
      opened={secret !== null}
      onClose={onClose}
      title={t.settings.routes.secretTitle}
      closeOnClickOutside={false}
    >
      <Text c="dimmed" size="sm" mb="sm">
        {t.settings.routes.secretText}
      </Text>
      <CodeBlock code={secret ?? ""} />
      <Group justify="flex-end" mt="md">
        <Button onClick={onClose}>{t.settings.mfa.saved}</Button>
      </Group>
    </Modal>
  );
}

/** For an operator who looks at the platform: its own alerts, or one tenant's. */
function Whose({ value, onChange }: { value: string; onChange: (tenant: string) => void }) {
  const { all } = useScope();
  return (
    <Select
      label={t.settings.routes.chooseTenant}
      data={[{ value: "", label: t.settings.routes.platformAlerts }, ...tenantOptions(all)]}
      value={value}
      onChange={(next) => onChange(next ?? "")}
      allowDeselect={false}
      searchable={all.length > 8}
    />
  );
}

export function RouteCreateDrawer({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { current } = useScope();
  const create = useCreateRoute();
  const [secret, setSecret] = useState<string | null>(null);
  const form = useForm<RouteValues>({ initialValues: NEW });
  const words = t.settings.routes;
  const close = () => {
    create.reset();
    form.reset();
    onClose();
  };
  const submit = form.onSubmit(({ tenant, ...values }) =>
    create.mutate(
      { ...values, tenant: current?.tenant ?? (tenant || null) },
      {
        onSuccess: (made) => {
          notifications.show({ message: words.saved(made.route.name || made.route.target) });
          setSecret(made.secret);
          close();
        },
      },
    ),
  );
  return (
    <>
      <FormDrawer
        opened={opened}
        title={words.create}
        submit={words.create}
        busy={create.isPending}
        error={create.error}
        onSubmit={submit}
        onClose={close}
        testId="route-form"
      >
        <SegmentedControl
          aria-label={words.kind}
          data={Object.entries(words.kinds).map(([value, label]) => ({ value, label }))}
          {...form.getInputProps("kind")}
        />
        {!current?.tenant && (
          <Whose value={form.values.tenant} onChange={(tenant) => form.setFieldValue("tenant", tenant)} />
        )}
        <RouteFields form={form} />
      </FormDrawer>
      <Secret secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}
