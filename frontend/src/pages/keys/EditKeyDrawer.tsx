import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import type { Key } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { RateLimitFields } from "../../components/RateLimitFields";
import { useEditKey } from "../../hooks/useKeys";
import { t } from "../../i18n";
import { limitsOf, limitValues } from "../../lib/rateLimits";
import { localInput } from "../../lib/timeRange";
import { DeploymentsField } from "./DeploymentsField";

interface FormProps {
  apiKey: Key;
  edit: ReturnType<typeof useEditKey>;
  onClose: () => void;
}

function Form({ apiKey, edit, onClose }: FormProps) {
  const form = useForm({
    initialValues: {
      name: apiKey.name,
      deployments: apiKey.deployments,
      ...limitValues(apiKey),
      expires: apiKey.expires_at ? localInput(apiKey.expires_at) : "",
    },
    validate: { name: (value) => (value.trim() ? null : t.keys.nameNeeded) },
  });
  const submit = form.onSubmit(({ name, deployments, expires, ...limits }) => {
    // An end that was not touched is left alone: it may lie in the past, or have seconds
    const end = form.isDirty("expires")
      ? { expires_at: expires ? new Date(expires).toISOString() : null }
      : {};
    edit.save({ name: name.trim(), deployments, ...limitsOf(limits), ...end }, () => {
      notifications.show({ message: t.keys.saved(name) });
      onClose();
    });
  });
  return (
    <FormDrawer
      opened
      title={t.keys.editTitle(apiKey.name)}
      submit={t.actions.save}
      busy={edit.busy}
      error={edit.error}
      onSubmit={submit}
      onClose={onClose}
      testId="key-form"
    >
      <ConflictNotice
        edit={edit}
        fields={{
          name: t.keys.name,
          deployments: t.keys.deployments,
          expires_at: t.keys.expiresAt,
          ...t.kit.limits.fields,
          ...t.kit.budgets.fields,
        }}
      />
      <TextInput label={t.keys.name} maxLength={120} data-autofocus {...form.getInputProps("name")} />
      {apiKey.scopes.includes("inference") && (
        <DeploymentsField
          tenant={apiKey.tenant}
          value={form.values.deployments}
          onChange={(ids) => form.setFieldValue("deployments", ids)}
        />
      )}
      <TextInput
        type="datetime-local"
        label={t.keys.expiresAt}
        description={t.keys.expiresHint}
        {...form.getInputProps("expires")}
      />
      {apiKey.scopes.includes("inference") && (
        <RateLimitFields hint={t.kit.limits.ofKey} inputProps={form.getInputProps} />
      )}
    </FormDrawer>
  );
}

interface Props {
  id: string | undefined;
  mayChange: (key: Key) => boolean;
  onClose: () => void;
}

/** Changes a key's name, deployments and end; its address is `?edit=ID`, which opens nothing to those who may not. */
export function EditKeyDrawer({ id, mayChange, onClose }: Props) {
  const edit = useEditKey(id);
  if (!edit.opened || !mayChange(edit.opened)) return null;
  const close = () => {
    edit.reset();
    onClose();
  };
  return <Form key={`${id}-${edit.version}`} apiKey={edit.opened} edit={edit} onClose={close} />;
}
