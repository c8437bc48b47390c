import { notifications } from "@mantine/notifications";
import type { ServiceClassDetail } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useDeleteClass } from "../../hooks/useClasses";
import { t } from "../../i18n";

export function DeleteClass({
  level,
  onClose,
}: {
  level: ServiceClassDetail | undefined;
  onClose: () => void;
}) {
  const remove = useDeleteClass();
  const words = t.slas.classes;
  const close = () => {
    remove.reset();
    onClose();
  };
  return (
    <ConfirmModal
      opened={level !== undefined}
      title={words.deleteTitle(level?.name ?? "")}
      text={words.deleteText}
      action={t.actions.delete}
      danger
      busy={remove.isPending}
      error={remove.error}
      onClose={close}
      onConfirm={() =>
        level &&
        remove.mutate(
          { shown: level, body: undefined },
          {
            onSuccess: () => {
              notifications.show({ message: words.deleted(level.name) });
              close();
            },
          },
        )
      }
    />
  );
}
