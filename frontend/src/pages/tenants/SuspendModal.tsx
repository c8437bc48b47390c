import { notifications } from "@mantine/notifications";
import type { Tenant } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useEditTenant } from "../../hooks/useTenantAdmin";
import { t } from "../../i18n";

/** Suspends a tenant, or lets it work again. */
export function SuspendModal({ tenant, onClose }: { tenant: Tenant | null; onClose: () => void }) {
  const edit = useEditTenant(tenant?.id);
  const words = t.tenants;
  const name = tenant?.name ?? "";
  const suspended = Boolean(tenant?.suspended_at);
  const close = () => {
    edit.reset();
    onClose();
  };
  const confirm = () =>
    edit.save({ suspended: !suspended }, () => {
      notifications.show({ message: suspended ? words.resumed(name) : words.suspended(name) });
      close();
    });
  return (
    <ConfirmModal
      opened={tenant !== null}
      title={suspended ? words.resumeTitle(name) : words.suspendTitle(name)}
      text={suspended ? words.resumeText : words.suspendText}
      action={suspended ? words.resume : words.suspend}
      danger={!suspended}
      busy={edit.busy || edit.loading}
      error={edit.error ?? (edit.conflict ? new Error(t.kit.conflict.title) : null)}
      onConfirm={confirm}
      onClose={close}
    />
  );
}
