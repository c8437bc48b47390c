import { Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconPlayerStop, IconRefresh, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import type { Model } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { ObjectMenu } from "../../components/ObjectMenu";
import { useDeleteModel, useSteerModel } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";

const ICON = { size: 15, stroke: 1.6 };

interface Props {
  model: Model;
  /** Deployments that serve it, as far as one sees them and knows yet; the server refuses what one does not see. */
  used: number | undefined;
  onDeleted?: () => void;
}

/** Operators change the platform's models, a tenant's admins its own. */
export function useMayChange(model: Model): boolean {
  const { operator, canChange, current } = useScope();
  return operator || (canChange && model.tenant !== null && model.tenant.id === current?.tenant);
}

/** What one may do to a model: stop or repeat its registration, delete it. */
export function ModelMenu({ model, used, onDeleted }: Props) {
  const [asked, setAsked] = useState<"delete" | "cancel" | null>(null);
  const retry = useSteerModel("retry");
  const words = t.models;
  if (!useMayChange(model)) return null;
  const tryAgain = () =>
    retry.mutate(model.id, {
      onSuccess: () => notifications.show({ message: words.retry.done(model.name) }),
      onError: (error) => notifications.show({ message: error.message, color: "red" }),
    });
  return (
    <>
      <ObjectMenu label={words.menu(model.name)} width={220} testId="model-menu">
        {model.state === "registering" && (
          <Menu.Item leftSection={<IconPlayerStop {...ICON} />} onClick={() => setAsked("cancel")}>
            {words.cancel.action}
          </Menu.Item>
        )}
        {(model.state === "failed" || model.state === "cancelled") && (
          <Menu.Item leftSection={<IconRefresh {...ICON} />} onClick={tryAgain}>
            {words.retry.action}
          </Menu.Item>
        )}
        <Menu.Item
          color="red"
          disabled={used !== 0 || model.state === "registering"}
          leftSection={<IconTrash {...ICON} />}
          onClick={() => setAsked("delete")}
          data-testid="delete-model"
        >
          {used ? words.remove.inUse : words.remove.action}
        </Menu.Item>
      </ObjectMenu>
      {asked && <Ask model={model} what={asked} onClose={() => setAsked(null)} onDeleted={onDeleted} />}
    </>
  );
}

interface AskProps {
  model: Model;
  what: "delete" | "cancel";
  onClose: () => void;
  onDeleted?: () => void;
}

function Ask({ model, what, onClose, onDeleted }: AskProps) {
  const remove = useDeleteModel();
  const cancel = useSteerModel("cancel");
  const words = what === "delete" ? t.models.remove : t.models.cancel;
  const onSuccess = () => {
    notifications.show({ message: words.done(model.name) });
    onClose();
    if (what === "delete") onDeleted?.();
  };
  const confirm = () => {
    if (what === "delete") remove.mutate({ shown: model, body: undefined }, { onSuccess });
    else cancel.mutate(model.id, { onSuccess });
  };
  return (
    <ConfirmModal
      opened
      title={words.title(model.name)}
      text={words.text}
      action={words.action}
      danger
      busy={remove.isPending || cancel.isPending}
      error={remove.error ?? cancel.error}
      onConfirm={confirm}
      onClose={onClose}
    />
  );
}
