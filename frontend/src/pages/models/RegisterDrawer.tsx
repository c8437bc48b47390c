import { Button, Drawer, Group, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconCircleCheck } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../../api/errors";
import type { ModelCreate } from "../../api/fleet";
import { FormError } from "../../components/FormError";
import { useModel, useRegisterModel } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { slugError } from "../../lib/slug";
import classes from "./Models.module.css";
import { nameOfSource } from "./modelFit";
import { RegistrationProgress } from "./RegistrationProgress";

const KINDS: readonly ModelCreate["source_kind"][] = ["directory", "gguf", "package"];

interface Props {
  opened: boolean;
  /** The model whose registration is followed; none while the form is filled in. */
  watched: string | undefined;
  onWatch: (id: string | undefined) => void;
  onClose: () => void;
}

/** Two steps: where the model is, then how far it has come, until it is ready or refused. */
export function RegisterDrawer({ opened, watched, onWatch, onClose }: Props) {
  const register = useRegisterModel();
  const words = t.models.form;
  const form = useForm<ModelCreate>({
    initialValues: { source_kind: "directory", source: "", name: "" },
    validate: { source: (v) => (v.trim() ? null : words.sourceNeeded), name: slugError },
  });
  const close = () => {
    onClose();
    register.reset();
    form.reset();
  };
  const submit = form.onSubmit((values) =>
    register.mutate(
      { ...values, source: values.source.trim() },
      {
        onSuccess: (model) => onWatch(model.id),
        onError: (error) => {
          const field = error instanceof ApiError ? error.field : undefined;
          if (field === "name" || field === "source") form.setFieldError(field, error.message);
        },
      },
    ),
  );
  const setSource = (source: string) => {
    form.setFieldValue("source", source);
    if (!form.isTouched("name")) form.setValues({ name: nameOfSource(source) });
  };
  const kind = form.values.source_kind;
  const atField =
    register.error instanceof ApiError && ["name", "source"].includes(register.error.field ?? "");
  return (
    <Drawer opened={opened} onClose={close} title={words.title} size={460}>
      {watched ? (
        <Watched id={watched} onAgain={() => onWatch(undefined)} onClose={close} />
      ) : (
        <form onSubmit={submit} className={classes.form} data-testid="register-form">
          <Select
            label={words.kind}
            data={KINDS.map((value) => ({ value, label: t.models.kinds[value] ?? value }))}
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
          <FormError error={atField ? null : register.error} />
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {t.actions.cancel}
            </Button>
            <Button type="submit" loading={register.isPending}>
              {words.submit}
            </Button>
          </Group>
        </form>
      )}
    </Drawer>
  );
}

function Watched({ id, onAgain, onClose }: { id: string; onAgain: () => void; onClose: () => void }) {
  const { current } = useScope();
  const found = useModel(id);
  const model = found.data;
  const words = t.models.form;
  if (!model) return <FormError error={found.error} />;
  return (
    <div className={classes.form} data-testid="registration" data-state={model.state}>
      <div className={classes.name}>
        <strong>{model.name}</strong>
        <span className={`${classes.sub} mono`}>{model.source}</span>
      </div>
      {model.state === "registering" && (
        <>
          <RegistrationProgress model={model} />
          <p className={classes.sub}>{words.leave}</p>
        </>
      )}
      {model.state === "failed" && (
        <p className={classes.refused} role="alert">
          <strong>{t.models.progress.refused}</strong>
          {model.reason}
        </p>
      )}
      {model.state === "ready" && (
        <div className={classes.done} role="status">
          <Group gap={8}>
            <IconCircleCheck size={18} color="var(--b-good)" aria-hidden="true" />
            <strong>{words.ready(model.name)}</strong>
          </Group>
          <span className={classes.sub}>{words.readyText}</span>
        </div>
      )}
      <Group justify="flex-end" gap="xs">
        {model.state === "ready" && (
          <Button variant="default" onClick={onAgain}>
            {words.another}
          </Button>
        )}
        {model.state === "failed" && (
          <Button variant="default" onClick={onAgain}>
            {words.edit}
          </Button>
        )}
        {model.state === "ready" ? (
          <Button component={Link} to={`/t/${current?.slug}/deployments?create=true&model=${model.id}`}>
            {t.models.deploy}
          </Button>
        ) : (
          <Button variant="default" onClick={onClose}>
            {t.actions.close}
          </Button>
        )}
      </Group>
    </div>
  );
}
