import { Alert, NumberInput, Select } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { IconInfoCircle } from "@tabler/icons-react";
import { useEffect } from "react";
import type { Deployment } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { useClasses } from "../../hooks/useClasses";
import { useEditDeployment } from "../../hooks/useDeployments";
import { useModels } from "../../hooks/useModels";
import { t } from "../../i18n";
import { classLine } from "./classLine";
import { fieldOf, fromDeployment, toChange, toFit } from "./deploymentForm";
import { EngineFields } from "./EngineFields";
import { FitCheck } from "./FitCheck";

interface FormProps {
  deployment: Deployment;
  edit: ReturnType<typeof useEditDeployment>;
  onClose: () => void;
}

function fields(): Record<string, string> {
  const words = t.deployments.form;
  return {
    "model.name": words.model,
    "service_class.name": words.class,
    replica_count: words.replicas,
    engine: words.engine,
    dtype: words.dtype,
    max_model_len: words.maxLen,
    max_num_seqs: words.maxSeqs,
    kv_bytes: words.kv,
    kv_dtype: words.kvDtype,
    default_max_tokens: words.maxTokens,
    desired_state: t.deployments.columns.state,
  };
}

function Form({ deployment, edit, onClose }: FormProps) {
  const models = useModels(deployment.tenant.id);
  const levels = useClasses();
  const words = t.deployments.form;
  const was = fromDeployment(deployment);
  const form = useForm({ initialValues: was });
  const running = deployment.desired_state === "running";
  const refused = fieldOf(edit.error);
  useEffect(() => {
    if (refused && edit.error) form.setFieldError(refused.field, edit.error.message);
  }, [edit.error]);
  const change = toChange(form.values, was);
  const submit = form.onSubmit(() =>
    edit.save(change, () => {
      notifications.show({ message: t.deployments.edit.done(deployment.name) });
      onClose();
    }),
  );
  const ready = (models.data ?? []).filter((m) => m.state === "ready");
  const model = ready.find((m) => m.id === form.values.model);
  const level = levels.data?.find((c) => c.id === form.values.service_class);
  return (
    <FormDrawer
      opened
      title={t.deployments.edit.title(deployment.name)}
      submit={t.actions.save}
      busy={edit.busy}
      disabled={Object.keys(change).length === 0}
      error={refused ? null : edit.error}
      onSubmit={submit}
      onClose={onClose}
      size={480}
      testId="edit-deployment-form"
    >
      <ConflictNotice edit={edit} fields={fields()} />
      <Select
        label={words.class}
        description={level && classLine(level)}
        data={(levels.data ?? []).map((c) => ({ value: c.id, label: c.name }))}
        allowDeselect={false}
        {...form.getInputProps("service_class")}
      />
      <NumberInput label={words.replicas} min={0} max={1000} {...form.getInputProps("replicas")} />
      <NumberInput
        label={words.maxTokens}
        min={1}
        thousandSeparator
        {...form.getInputProps("default_max_tokens")}
      />
      <p className="muted" style={{ margin: 0 }}>
        {t.deployments.edit.live}
      </p>
      <Alert color={running ? "yellow" : "blue"} variant="light" icon={<IconInfoCircle size={16} />} p="xs">
        {running ? t.deployments.edit.stopFirst : t.deployments.edit.stopped}
      </Alert>
      <Select
        label={words.model}
        data={ready.map((m) => ({ value: m.id, label: m.name }))}
        allowDeselect={false}
        searchable
        disabled={running}
        {...form.getInputProps("model")}
      />
      <EngineFields form={form} model={model} disabled={running} />
      {!running && (
        <FitCheck
          model={form.values.model}
          request={toFit(form.values, deployment.owner === "platform" ? "" : form.values.tenant)}
        />
      )}
    </FormDrawer>
  );
}

/** Changes a deployment's settings: those that its runtimes are started with only while it is stopped. */
export function EditDeploymentDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const edit = useEditDeployment(id);
  if (!edit.opened) return null;
  const close = () => {
    edit.reset();
    onClose();
  };
  return <Form key={`${id}-${edit.version}`} deployment={edit.opened} edit={edit} onClose={close} />;
}
