import { NumberInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { FormDrawer } from "../../components/FormDrawer";
import { RateLimitFields } from "../../components/RateLimitFields";
import { useCreateTenant } from "../../hooks/useTenantAdmin";
import { t } from "../../i18n";
import { limitsOf, NO_LIMITS } from "../../lib/rateLimits";
import { slugError, toSlug } from "../../lib/slug";

export function CreateTenantDrawer({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const create = useCreateTenant();
  const words = t.tenants.form;
  const form = useForm({
    initialValues: { name: "", slug: "", weight: 1, ...NO_LIMITS },
    validate: { name: (name) => (name.trim() ? null : words.nameNeeded), slug: slugError },
  });
  const close = () => {
    create.reset();
    form.reset();
    onClose();
  };
  const submit = form.onSubmit((values) =>
    create.mutate(
      { ...values, ...limitsOf(values) },
      {
        onSuccess: (tenant) => {
          notifications.show({ message: words.created(tenant.name) });
          close();
        },
      },
    ),
  );
  return (
    <FormDrawer
      opened={opened}
      title={t.tenants.create}
      submit={t.tenants.create}
      busy={create.isPending}
      error={create.error}
      onSubmit={submit}
      onClose={close}
      testId="tenant-form"
    >
      <TextInput
        label={words.name}
        maxLength={120}
        data-autofocus
        {...form.getInputProps("name")}
        onChange={(event) => {
          form.setFieldValue("name", event.target.value);
          if (!form.isTouched("slug")) form.setValues({ slug: toSlug(event.target.value) });
        }}
      />
      <TextInput label={words.slug} description={words.slugHint} {...form.getInputProps("slug")} />
      <NumberInput
        label={words.weight}
        description={words.weightHint}
        min={1}
        max={1000}
        {...form.getInputProps("weight")}
      />
      <RateLimitFields hint={t.kit.limits.ofTenant} inputProps={form.getInputProps} />
    </FormDrawer>
  );
}
