import { Button, Group, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { Facts } from "../../components/Facts";
import { FormError } from "../../components/FormError";
import { Panel } from "../../components/Panel";
import { useRename } from "../../hooks/useAccount";
import { useMe } from "../../hooks/useMe";
import { t } from "../../i18n";

export function ProfilePanel() {
  const { data: me } = useMe();
  const rename = useRename();
  const [name, setName] = useState<string>();
  const words = t.settings.profile;
  if (!me) return null;
  const roles = me.memberships.map((one) => `${one.tenant.name}: ${t.roles[one.role]}`);
  if (me.is_operator) roles.unshift(words.operator);
  const value = name ?? me.user.name ?? "";
  return (
    <Panel title={words.title}>
      <Facts
        rows={[
          { label: words.email, value: me.user.email },
          { label: words.role, value: roles.join(" · ") || t.kit.none },
        ]}
      />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          rename.mutate(value.trim(), {
            onSuccess: () => {
              setName(undefined);
              notifications.show({ message: words.saved });
            },
          });
        }}
      >
        <Group align="end" gap="xs" mt="sm" wrap="nowrap">
          <TextInput
            label={words.name}
            value={value}
            onChange={(event) => setName(event.target.value)}
            autoComplete="name"
            maxLength={120}
            flex={1}
          />
          <Button type="submit" variant="default" loading={rename.isPending} disabled={name === undefined}>
            {t.actions.save}
          </Button>
        </Group>
        <FormError error={rename.error} />
      </form>
    </Panel>
  );
}
