import { Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Role } from "../../api/types";
import { FormDrawer } from "../../components/FormDrawer";
import { TenantSelect } from "../../components/TenantSelect";
import { useInvite } from "../../hooks/useInvitations";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import type { InvitationLink } from "./LinkModal";
import { roleOptions } from "./roles";

interface Props {
  opened: boolean;
  onClose: () => void;
  onLink: (link: InvitationLink) => void;
}

export function InviteDrawer({ opened, onClose, onLink }: Props) {
  const { current } = useScope();
  const invite = useInvite();
  const words = t.members.form;
  const form = useForm({ initialValues: { tenant: "", email: "", role: "developer" as Role } });
  const close = () => {
    invite.reset();
    form.reset();
    onClose();
  };
  const submit = form.onSubmit(({ tenant, email, role }) =>
    invite.mutate(
      { tenant: current?.tenant ?? tenant, email: email.trim(), role },
      {
        onSuccess: ({ url, mailed }) => {
          close();
          onLink({ email: email.trim(), url, mailed });
        },
      },
    ),
  );
  return (
    <FormDrawer
      opened={opened}
      title={t.members.invite}
      submit={words.submit}
      busy={invite.isPending}
      error={invite.error}
      onSubmit={submit}
      onClose={close}
      testId="invite-form"
    >
      {!current?.tenant && <TenantSelect {...form.getInputProps("tenant")} />}
      <TextInput
        label={words.email}
        type="email"
        required
        withAsterisk={false}
        data-autofocus
        {...form.getInputProps("email")}
      />
      <Select
        label={words.role}
        description={t.members.roleHints[form.values.role]}
        data={roleOptions()}
        allowDeselect={false}
        {...form.getInputProps("role")}
      />
    </FormDrawer>
  );
}
