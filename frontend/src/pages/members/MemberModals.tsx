import { notifications } from "@mantine/notifications";
import type { Member, Role } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useChangeRole, useRemoveMember } from "../../hooks/useMembers";
import { t } from "../../i18n";

export interface RoleChange {
  member: Member;
  role: Role;
}

const nameOf = (member: Member | undefined) => member?.user.name || member?.user.email || "";

export function ChangeRole({ change, onClose }: { change: RoleChange | null; onClose: () => void }) {
  const give = useChangeRole();
  const name = nameOf(change?.member);
  const role = change ? t.roles[change.role] : "";
  const close = () => {
    give.reset();
    onClose();
  };
  return (
    <ConfirmModal
      opened={change !== null}
      title={t.members.change(name, role)}
      text={change ? t.members.changeText(t.members.roleHints[change.role]) : ""}
      action={t.actions.save}
      busy={give.isPending}
      error={give.error}
      onConfirm={() =>
        change &&
        give.mutate(
          { shown: change.member, body: change.role },
          {
            onSuccess: () => {
              notifications.show({ message: t.members.changed(name, role) });
              close();
            },
          },
        )
      }
      onClose={close}
    />
  );
}

export function RemoveMember({ member, onClose }: { member: Member | null; onClose: () => void }) {
  const remove = useRemoveMember();
  const name = nameOf(member ?? undefined);
  const close = () => {
    remove.reset();
    onClose();
  };
  return (
    <ConfirmModal
      opened={member !== null}
      title={t.members.removeTitle(name)}
      text={t.members.removeText}
      action={t.members.remove}
      danger
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() =>
        member &&
        remove.mutate(
          { shown: member, body: undefined },
          {
            onSuccess: () => {
              notifications.show({ message: t.members.removed(name) });
              close();
            },
          },
        )
      }
      onClose={close}
    />
  );
}
