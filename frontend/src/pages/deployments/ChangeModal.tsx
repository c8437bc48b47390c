import { NumberInput, Select, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import type { Deployment } from "../../api/types";
import { ConfirmModal } from "../../components/ConfirmModal";
import { useClasses } from "../../hooks/useClasses";
import { type Change, useChangeDeployment } from "../../hooks/useDeployments";
import { t } from "../../i18n";
import { slugError } from "../../lib/slug";
import { classLine } from "./classLine";

export type Verb = Change["verb"];

interface Props {
  deployment: Deployment;
  verb: Verb;
  onClose: () => void;
  onDeleted: () => void;
}

/** One window for start, stop, scale, another class, clone and delete: it says what happens, then does it. */
export function ChangeModal({ deployment, verb, onClose, onDeleted }: Props) {
  const change = useChangeDeployment();
  const [replicas, setReplicas] = useState<number>(deployment.replica_count);
  const [name, setName] = useState(`${deployment.name}-copy`);
  const [level, setLevel] = useState(deployment.service_class.id);
  const levels = useClasses();
  const chosen = levels.data?.find((one) => one.id === level);
  const words = t.deployments.change[verb];
  const problem = verb === "clone" ? slugError(name) : null;

  const wanted = (): Change => {
    if (verb === "scale") return { verb, replicas };
    if (verb === "clone") return { verb, name };
    if (verb === "class") return { verb, service_class: level };
    return { verb };
  };
  const confirm = () => {
    if (problem) return;
    change.mutate(
      { shown: deployment, body: wanted() },
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
      {verb === "class" && (
        <Select
          label={t.deployments.form.class}
          description={chosen && classLine(chosen)}
          data={(levels.data ?? []).map((one) => ({ value: one.id, label: one.name }))}
          value={level}
          onChange={(value) => value && setLevel(value)}
          allowDeselect={false}
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
