import { Alert, NumberInput, Select, SimpleGrid, Skeleton, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import type { ServiceClassDetail } from "../../api/types";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { useCreateClass, useEditClass } from "../../hooks/useClasses";
import { t } from "../../i18n";
import { bodyOf, type ClassValues, checkClass, ISOLATION, NEW_CLASS, valuesOf } from "./classForm";
import classes from "./Slas.module.css";

type NumberField = Exclude<keyof ClassValues, "name" | "description" | "isolation">;

interface Field {
  name: NumberField;
  min: number;
  max?: number;
  decimals?: number;
  step?: number;
}

const TIMES: Field[] = [
  { name: "base_ms", min: 1, step: 50 },
  { name: "tpot_ms", min: 1, step: 5 },
  { name: "free_prompt_tokens", min: 0, step: 500 },
  { name: "prefill_tokens_per_s", min: 1, step: 1000 },
  { name: "stretch_tpot_ms", min: 1, step: 5 },
  { name: "e2e_s", min: 1, decimals: 3, step: 60 },
];
const SHARES: Field[] = [
  { name: "target", min: 0, max: 100, decimals: 4, step: 0.5 },
  { name: "fluidity", min: 0, max: 100, decimals: 4, step: 0.5 },
];
const PRICES: Field[] = [
  { name: "input", min: 0, decimals: 4, step: 0.1 },
  { name: "cached", min: 0, decimals: 4, step: 0.1 },
  { name: "output", min: 0, decimals: 4, step: 0.1 },
];

interface FormProps {
  initial: ClassValues;
  editing: boolean;
  onSubmit: (values: ClassValues) => void;
  drawer: Omit<Parameters<typeof FormDrawer>[0], "onSubmit" | "children">;
  notice: React.ReactNode;
  currency: string | undefined;
}

function ClassForm({ initial, editing, onSubmit, drawer, notice, currency }: FormProps) {
  const form = useForm({ initialValues: initial, validate: checkClass });
  const words = t.slas.classes.form;
  const number = ({ name, min, max, decimals = 0, step }: Field) => (
    <NumberInput
      key={name}
      label={words.fields[name].label}
      description={words.fields[name].hint}
      placeholder={words.none}
      min={min}
      max={max}
      step={step}
      decimalScale={decimals}
      allowNegative={false}
      thousandSeparator=","
      {...form.getInputProps(name)}
    />
  );
  return (
    <FormDrawer {...drawer} size={560} onSubmit={form.onSubmit(onSubmit)}>
      {notice}
      <TextInput
        label={words.name}
        description={editing ? undefined : words.nameHint}
        readOnly={editing}
        maxLength={40}
        data-autofocus={!editing || undefined}
        {...form.getInputProps("name")}
      />
      <Textarea
        label={words.description}
        autosize
        minRows={1}
        maxRows={3}
        maxLength={200}
        {...form.getInputProps("description")}
      />
      <fieldset className={classes.group}>
        <legend>{words.times}</legend>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
          {TIMES.map(number)}
        </SimpleGrid>
      </fieldset>
      <fieldset className={classes.group}>
        <legend>{words.shares}</legend>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
          {SHARES.map(number)}
        </SimpleGrid>
      </fieldset>
      <Select
        label={words.isolation}
        description={t.slas.isolation[form.values.isolation].hint}
        data={ISOLATION.map((value) => ({ value, label: t.slas.isolation[value].label }))}
        allowDeselect={false}
        {...form.getInputProps("isolation")}
      />
      <fieldset className={classes.group}>
        <legend>{words.prices(currency ?? "")}</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          {PRICES.map(number)}
        </SimpleGrid>
      </fieldset>
    </FormDrawer>
  );
}

interface Props {
  creating: boolean;
  level: ServiceClassDetail | undefined;
  onClose: () => void;
}

export function ClassDrawer({ creating, level, onClose }: Props) {
  const create = useCreateClass();
  const edit = useEditClass(level?.id);
  const words = t.slas.classes;
  const close = () => {
    create.reset();
    edit.reset();
    onClose();
  };
  const done = (name: string) => {
    notifications.show({ message: words.saved(name) });
    close();
  };
  const submit = (values: ClassValues) => {
    const body = bodyOf(values);
    if (!level) return create.mutate(body, { onSuccess: () => done(body.name) });
    const { name, ...change } = body;
    return edit.save(change, () => done(name));
  };
  const drawer = {
    opened: creating || level !== undefined,
    title: level ? words.editOf(level.name) : words.create,
    submit: level ? t.actions.save : t.actions.create,
    busy: create.isPending || edit.busy,
    error: create.error ?? edit.error,
    onClose: close,
    disabled: edit.loading,
    testId: "class-form",
  };
  if (level && !edit.opened) {
    return (
      <FormDrawer {...drawer} size={560} onSubmit={(event) => event.preventDefault()}>
        <Skeleton height={300} />
      </FormDrawer>
    );
  }
  const notice = level && (
    <>
      <ConflictNotice edit={edit as never} />
      {level.contracts_open > 0 && (
        <Alert variant="light" p="xs">
          {words.form.newVersions(level.contracts_open)}
        </Alert>
      )}
    </>
  );
  return (
    <ClassForm
      key={`${level?.id ?? "new"} ${edit.version}`}
      initial={edit.opened ? valuesOf(edit.opened) : NEW_CLASS}
      editing={level !== undefined}
      onSubmit={submit}
      drawer={drawer}
      notice={notice}
      currency={level?.currency}
    />
  );
}
