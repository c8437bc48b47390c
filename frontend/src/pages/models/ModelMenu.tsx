import { ActionIcon, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconDots, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import type { Model } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useMe } from "../../hooks/useMe";
import { useDeleteModel } from "../../hooks/useModels";
import { t } from "../../i18n";

const ICON = { size: 15, stroke: 1.6 };

interface Props {
  model: Model;
  /** Deployments that serve it, as far as one sees them; the server refuses what one does not see. */
  used: number;
  onDeleted?: () => void;
}

/** What an operator may do to a model. */
export function ModelMenu({ model, used, onDeleted }: Props) {
  const operator = useMe().data?.user.is_operator ?? false;
  const [asked, setAsked] = useState(false);
  const remove = useDeleteModel();
  const words = t.models.remove;
  if (!operator) return null;
  const confirm = () =>
    remove.mutate(model.id, {
      onSuccess: () => {
        notifications.show({ message: words.done(model.name) });
        setAsked(false);
        onDeleted?.();
      },
    });
  return (
    <>
      <Menu width={220}>
        <Menu.Target>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={t.models.menu(model.name)}
            data-testid="model-menu"
          >
            <IconDots size={17} stroke={1.6} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            color="red"
            disabled={used > 0 || model.state === "registering"}
            leftSection={<IconTrash {...ICON} />}
            onClick={() => setAsked(true)}
            data-testid="delete-model"
          >
            {used > 0 ? words.inUse : words.action}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <ConfirmModal
        opened={asked}
        title={words.title(model.name)}
        text={words.text}
        action={words.action}
        danger
        busy={remove.isPending}
        error={remove.error}
        onConfirm={confirm}
        onClose={() => {
          setAsked(false);
          remove.reset();
        }}
      />
    </>
  );
}
