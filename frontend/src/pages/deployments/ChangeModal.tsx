import { NumberInput, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { Deployment } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { type Change, useChangeDeployment } from "../../hooks/useDeployments";
import { t } from "../../i18n";
import { slugError } from "../../lib/slug";

export type Verb = Change["verb"];

interface Props {
  deployment: Deployment;
  verb: Verb;
  onClose: () => void;
  onDeleted: () => void;
}

/** One window for start, stop, scale, clone and delete: it says what happens, then does it. */
export function ChangeModal({ deployment, verb, onClose, onDeleted }: Props) {
  const change = useChangeDeployment();
  const [replicas, setReplicas] = useState<number>(deployment.replica_count);
  const [name, setName] = useState(`${deployment.name}-copy`);
  const words = t.deployments.change[verb];
  const problem = verb === "clone" ? slugError(name) : null;

  const wanted = (): Change => {
    if (verb === "scale") return { verb, replicas };
    if (verb === "clone") return { verb, name };
    return { verb };
  };
  const confirm = () => {
    if (problem) return;
    change.mutate(
      { id: deployment.id, change: wanted() },
      {
        onSuccess: () => {
          notifications.show({ message: words.done(verb === "clone" ? name : deployment.name) });
          onClose();
          if (verb === "delete") onDeleted();
        },
      },
    );
  };
  return (
    <ConfirmModal
      opened
      title={words.title(deployment.name)}
      text={words.text}
      action={t.deployments.verbs[verb]}
      danger={verb === "delete" || verb === "stop"}
      busy={change.isPending}
      error={change.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      {verb === "scale" && (
        <NumberInput
          label={t.deployments.form.replicas}
          min={0}
          max={64}
          clampBehavior="strict"
          value={replicas}
          onChange={(v) => setReplicas(Number(v) || 0)}
          mt="md"
          data-autofocus
        />
      )}
      {verb === "clone" && (
        <TextInput
          label={t.deployments.form.name}
          value={name}
          onChange={(e) => setName(e.target.value)}
          error={problem}
          mt="md"
          data-autofocus
        />
      )}
    </ConfirmModal>
  );
}
