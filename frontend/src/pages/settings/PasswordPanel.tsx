import { Button, PasswordInput, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { FormError } from "../../components/FormError";
import { Panel } from "../../components/Panel";
import { useChangePassword } from "../../hooks/useAccount";
import { useMe } from "../../hooks/useMe";
import { t } from "../../i18n";

export function PasswordPanel() {
  const change = useChangePassword();
  const { data: me } = useMe();
  const words = t.settings.password;
  const form = useForm({
    initialValues: { current: "", next: "", again: "" },
    validate: { again: (again, { next }) => (again === next ? null : words.differs) },
  });
  const submit = form.onSubmit(({ current, next }) =>
    change.mutate(
      { current, new: next },
      {
        onSuccess: () => {
          form.reset();
          notifications.show({ message: words.done });
        },
      },
    ),
  );
  return (
    <Panel title={words.title}>
      <form onSubmit={submit} data-testid="password-form">
        {/* Tells a password manager whose password this is */}
        <input type="hidden" autoComplete="username" value={me?.user.email ?? ""} readOnly />
        <Stack gap="sm">
          <PasswordInput
            label={words.current}
            autoComplete="current-password"
            required
            withAsterisk={false}
            {...form.getInputProps("current")}
          />
          <PasswordInput
            label={words.next}
            description={words.text}
            autoComplete="new-password"
            required
            withAsterisk={false}
            {...form.getInputProps("next")}
          />
          <PasswordInput
            label={words.again}
            autoComplete="new-password"
            required
            withAsterisk={false}
            {...form.getInputProps("again")}
          />
        </Stack>
        <FormError error={change.error} />
        <Button type="submit" variant="default" mt="md" loading={change.isPending}>
          {words.submit}
        </Button>
      </form>
    </Panel>
  );
}
