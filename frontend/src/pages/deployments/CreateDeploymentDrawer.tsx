import {
  Button,
  Collapse,
  Drawer,
  Group,
  NumberInput,
  Select,
  TextInput,
  UnstyledButton,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useEffect } from "react";
import type { Model } from "../../api/types";
import { FormError } from "../../components/FormError";
import { LaterInDialog } from "../../components/Later";
import { TenantSelect } from "../../components/TenantSelect";
import { useClasses } from "../../hooks/useClasses";
import { useCreateDeployment } from "../../hooks/useDeployments";
import { useModels } from "../../hooks/useModels";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { percent } from "../../lib/format";
import { slugError, toSlug } from "../../lib/slug";
import { kvMibFor } from "../models/modelFit";
import { classLine } from "./classLine";
import classes from "./Deployments.module.css";
import { fieldOf, INITIAL, toCreate, toFit, type Values } from "./deploymentForm";
import { EngineFields } from "./EngineFields";
import { FitCheck } from "./FitCheck";

/** A model that is not ready is listed with what it waits for, so that nobody looks for it in vain. */
function toOption(model: Model) {
  if (model.state === "ready") return { value: model.id, label: model.name };
  const state = model.state === "failed" ? say(model.reason) || t.states.failed : percent(model.progress);
  return { value: model.id, label: t.deployments.form.notReady(model.name, state), disabled: true };
}

interface Props {
  opened: boolean;
  /** The model to start from. */
  model?: string;
  onClose: () => void;
}

export function CreateDeploymentDrawer({ opened, model: given, onClose }: Props) {
  const { current, operator } = useScope();
  const models = useModels(current?.tenant);
  const levels = useClasses();
  const create = useCreateDeployment();
  const [advanced, more] = useDisclosure(false);
  const words = t.deployments.form;
  const form = useForm<Values>({
    initialValues: INITIAL,
    validate: {
      name: slugError,
      model: (v) => (v ? null : words.modelNeeded),
      service_class: (v) => (v ? null : words.classNeeded),
      tenant: (v) => (current?.tenant || operator || v ? null : t.scope.choose),
    },
  });
  const close = () => {
    onClose();
    create.reset();
    form.reset();
  };
  const submit = form.onSubmit((values) =>
    create.mutate(toCreate(values, current?.tenant ?? values.tenant), {
      onSuccess: () => {
        notifications.show({ message: words.done(values.name) });
        close();
      },
      onError: (error) => {
        const refused = fieldOf(error);
        if (refused) form.setFieldError(refused.field, error.message);
        if (refused?.advanced) more.open();
      },
    }),
  );
  const ready = (models.data ?? []).filter((m) => m.state === "ready");
  const chosen = ready.find((m) => m.id === form.values.model);
  const level = levels.data?.find((c) => c.id === form.values.service_class);
  const chooseModel = (id: string | null) => {
    const model = ready.find((m) => m.id === id);
    form.setFieldValue("model", id ?? "");
    if (!model) return;
    if (!form.isTouched("name")) form.setValues({ name: toSlug(model.name) });
    // One request of the whole context has room; less is refused.
    if (!form.isTouched("kv_mib")) form.setValues({ kv_mib: kvMibFor(model) });
  };
  const arrived = ready.some((m) => m.id === given);
  // "Deploy" of a model came with it; the list of models may come later
  useEffect(() => {
    if (opened && arrived && given) chooseModel(given);
  }, [opened, arrived, given]);
  return (
    <Drawer opened={opened} onClose={close} title={t.deployments.create} size={480}>
      <LaterInDialog>
        <form onSubmit={submit} className={classes.form} data-testid="create-deployment-form">
          {!current?.tenant && (
            <TenantSelect
              label={words.tenant}
              placeholder={words.platform}
              required={false}
              clearable
              {...form.getInputProps("tenant")}
            />
          )}
          <Select
            label={words.model}
            placeholder={words.modelPlaceholder}
            data={(models.data ?? []).map(toOption)}
            searchable
            nothingFoundMessage={words.noModels}
            {...form.getInputProps("model")}
            onChange={chooseModel}
          />
          <TextInput label={words.name} description={words.nameHint} {...form.getInputProps("name")} />
          <Select
            label={words.class}
            description={level ? classLine(level) : words.classHint}
            placeholder={words.classNeeded}
            data={(levels.data ?? []).map((c) => ({ value: c.id, label: c.name }))}
            allowDeselect={false}
            {...form.getInputProps("service_class")}
          />
          <NumberInput label={words.replicas} min={1} max={64} {...form.getInputProps("replicas")} />
          <UnstyledButton onClick={more.toggle} aria-expanded={advanced} c="dimmed" fz="sm">
            <Group gap={4}>
              {advanced ? <IconChevronDown size={15} /> : <IconChevronRight size={15} />}
              {words.advanced}
            </Group>
          </UnstyledButton>
          <Collapse expanded={advanced}>
            <EngineFields form={form} model={chosen} />
            <NumberInput
              mt="sm"
              label={words.maxTokens}
              min={1}
              thousandSeparator
              {...form.getInputProps("default_max_tokens")}
            />
          </Collapse>
          <FitCheck
            model={form.values.model || null}
            request={toFit(form.values, current?.tenant ?? form.values.tenant)}
          />
          <FormError error={fieldOf(create.error) ? null : create.error} />
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {t.actions.cancel}
            </Button>
            <Button type="submit" loading={create.isPending}>
              {words.submit}
            </Button>
          </Group>
        </form>
      </LaterInDialog>
    </Drawer>
  );
}
