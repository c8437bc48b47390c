import { TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { Contract } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useEndContract } from "../../hooks/useContracts";
import { t } from "../../i18n";

const words = t.slas.contracts;

export function EndContract({ contract, onClose }: { contract: Contract | undefined; onClose: () => void }) {
  const [at, setAt] = useState("");
  const end = useEndContract();
  const close = () => {
    end.reset();
    setAt("");
    onClose();
  };
  const scheduled = contract?.state === "scheduled";
  const confirm = () =>
    contract &&
    end.mutate(
      { shown: contract, body: at ? new Date(at).toISOString() : null },
      {
        onSuccess: () => {
          notifications.show({ message: words.ended });
          close();
        },
      },
    );
  return (
    <ConfirmModal
      opened={contract !== undefined}
      title={contract ? words.endTitle(contract.tenant.name, contract.deployment.name) : ""}
      text={scheduled ? words.withdrawText : words.endText}
      action={scheduled ? words.withdraw : words.end}
      danger
      busy={end.isPending}
      error={end.error}
      onConfirm={confirm}
      onClose={close}
    >
      {!scheduled && (
        <TextInput
          type="datetime-local"
          mt="md"
          label={words.endAt}
          description={words.endAtHint}
          value={at}
          onChange={(event) => setAt(event.currentTarget.value)}
        />
      )}
    </ConfirmModal>
  );
}
