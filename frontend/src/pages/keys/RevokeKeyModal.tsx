import { notifications } from "@mantine/notifications";
import type { Key } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useRevokeKey } from "../../hooks/useKeys";
import { t } from "../../i18n";

export function RevokeKeyModal({ apiKey, onClose }: { apiKey: Key | null; onClose: () => void }) {
  const revoke = useRevokeKey();
  const close = () => {
    revoke.reset();
    onClose();
  };
  const confirm = () => {
    if (!apiKey) return;
    revoke.mutate(
      { shown: apiKey, body: undefined },
      {
        onSuccess: () => {
          notifications.show({ message: t.keys.revoked(apiKey.name) });
          close();
        },
      },
    );
  };
  return (
    <ConfirmModal
      opened={apiKey !== null}
      title={t.keys.revokeTitle(apiKey?.name ?? "")}
      text={t.keys.revokeText}
      action={t.keys.revoke}
      danger
      busy={revoke.isPending}
      error={revoke.error}
      onConfirm={confirm}
      onClose={close}
    />
  );
}
