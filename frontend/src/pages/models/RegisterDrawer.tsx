import { Drawer, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { ApiError } from "../../api/errors";
import type { ModelCreate } from "../../api/fleet";
import { FormDrawer } from "../../components/FormDrawer";
import { useRegisterModel } from "../../hooks/useModels";
import { tenantOptions, useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { slugError } from "../../lib/slug";
import { nameOfSource } from "./modelFit";
import { Watched } from "./Watched";

type Kind = ModelCreate["source_kind"];
const KINDS: readonly Kind[] = ["directory", "gguf", "hub", "package"];
const FIELDS = ["name", "source", "source_kind", "tenant"] as const;
type Field = (typeof FIELDS)[number];
const EVERYONE = "";

interface Props {
  opened: boolean;
  /** The model whose registration is followed; none while the form is filled in. */
  watched: string | undefined;
  onWatch: (id: string | undefined) => void;
  onClose: () => void;
}

/** Two steps: where the model is, then how far it has come, until it is ready or refused. */
export function RegisterDrawer({ watched, onWatch, ...props }: Props) {
  if (!watched) return <RegisterForm {...props} onWatch={onWatch} />;
  return (
    <Drawer opened={props.opened} onClose={props.onClose} title={t.models.form.title} size={460}>
      <Watched id={watched} onAgain={() => onWatch(undefined)} onClose={props.onClose} />
    </Drawer>
  );
}

/** The field that a refusal is about, where the form has one. */
function fieldOf(error: Error | null): Field | undefined {
  const field = error instanceof ApiError ? error.field : undefined;
  return FIELDS.find((one) => one === field);
}

function RegisterForm({ opened, onWatch, onClose }: Omit<Props, "watched">) {
  const { operator, current, all } = useScope();
  const register = useRegisterModel();
  const words = t.models.form;
  // A tenant's own come from the hub: the server's folders are the operators'.
  const kinds: readonly Kind[] = operator ? KINDS : ["hub"];
  const form = useForm({
    initialValues: {
      source_kind: kinds[0] as Kind,
      source: "",
      name: "",
      tenant: operator ? EVERYONE : (current?.tenant ?? EVERYONE),
    },
    validate: { source: (v) => (v.trim() ? null : words.sourceNeeded), name: slugError },
  });
  const close = () => {
    onClose();
    register.reset();
    form.reset();
  };
  const submit = form.onSubmit(({ tenant, source, ...values }) =>
    register.mutate(
      { ...values, source: source.trim(), tenant: tenant || null },
      {
        onSuccess: (model) => {
          form.reset();
          onWatch(model.id);
        },
        onError: (error) => {
          const field = fieldOf(error);
          if (field) form.setFieldError(field, error.message);
        },
      },
    ),
  );
  const setSource = (source: string) => {
    form.setFieldValue("source", source);
    if (!form.isTouched("name")) form.setValues({ name: nameOfSource(source) });
  };
  const kind = form.values.source_kind;
  const owners = tenantOptions(all);
  return (
    <FormDrawer
      opened={opened}
      title={words.title}
      submit={words.submit}
      busy={register.isPending}
      error={fieldOf(register.error) ? null : register.error}
      onSubmit={submit}
      onClose={close}
      testId="register-form"
    >
      <Select
        label={words.kind}
        data={kinds.map((value) => ({ value, label: t.models.kinds[value] ?? value }))}
        allowDeselect={false}
        {...form.getInputProps("source_kind")}
      />
      <TextInput
        label={words.source[kind]}
        description={words.sourceHint[kind]}
        placeholder={words.placeholder[kind]}
        spellCheck={false}
        data-autofocus
        {...form.getInputProps("source")}
        onChange={(e) => setSource(e.target.value)}
      />
      <TextInput label={words.name} description={words.nameHint} {...form.getInputProps("name")} />
      {operator && kind === "hub" && (
        <Select
          label={words.tenant}
          data={[{ value: EVERYONE, label: words.everyone }, ...owners]}
          allowDeselect={false}
          searchable={owners.length > 8}
          {...form.getInputProps("tenant")}
        />
      )}
    </FormDrawer>
  );
}
