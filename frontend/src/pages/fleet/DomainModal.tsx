import { TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { Node } from "../../api/fleet";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useSetDomain } from "../../hooks/useNodes";
import { t } from "../../i18n";

/** Which nodes fail together with this one. */
export function DomainModal({ node, onClose }: { node: Node; onClose: () => void }) {
  const change = useSetDomain();
  const [domain, setDomain] = useState(node.fault_domain);
  const words = t.fleet.actions;
  const confirm = () =>
    change.mutate(
      { shown: node, body: domain.trim() },
      {
        onSuccess: () => {
          notifications.show({ message: words.domainSaved(node.name) });
          onClose();
        },
      },
    );
  return (
    <ConfirmModal
      opened
      title={words.domainTitle(node.name)}
      text={words.domainText}
      action={t.actions.save}
      busy={change.isPending}
      error={change.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      <TextInput
        mt="md"
        label={words.domain}
        placeholder={t.fleet.node.domainAlone}
        maxLength={63}
        value={domain}
        onChange={(event) => setDomain(event.target.value)}
        data-autofocus
      />
    </ConfirmModal>
  );
}
