import { TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { MapGpu } from "../../api/fleet";
import { ConfirmModal } from "../../components/ConfirmModal";
import { type GpuChange as Change, useChangeGpu } from "../../hooks/useGpus";
import { t } from "../../i18n";

interface Props {
  gpu: MapGpu;
  verb: Change["verb"];
  onClose: () => void;
}

/** Says what fencing or clearing a GPU does, then does it. */
export function GpuChange({ gpu, verb, onClose }: Props) {
  const change = useChangeGpu();
  const [reason, setReason] = useState("");
  const [tried, setTried] = useState(false);
  const words = t.fleet.health;
  const name = words.name(gpu.label, gpu.node.name);
  const { title, text, done } = words.changes[verb];
  const needed = verb === "fence" && !reason.trim();
  const confirm = () => {
    setTried(true);
    if (needed) return;
    const body: Change = verb === "fence" ? { verb, reason: reason.trim() } : { verb };
    change.mutate(
      { shown: gpu, body },
      {
        onSuccess: () => {
          notifications.show({ message: done(name) });
          onClose();
        },
      },
    );
  };
  return (
    <ConfirmModal
      opened
      title={title(name)}
      text={text}
      action={words[verb]}
      danger={verb === "fence"}
      busy={change.isPending}
      error={change.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      {verb === "fence" && (
        <TextInput
          mt="md"
          label={words.reason}
          description={words.reasonHint}
          maxLength={200}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          error={tried && needed ? words.reasonNeeded : null}
          data-autofocus
        />
      )}
    </ConfirmModal>
  );
}
