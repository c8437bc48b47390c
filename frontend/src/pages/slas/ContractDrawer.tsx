import { Alert, NumberInput, Select, SimpleGrid, Skeleton, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import type { ReactNode } from "react";
import { BudgetFields } from "../../components/BudgetFields";
import { ConflictNotice } from "../../components/ConflictNotice";
import { FormDrawer } from "../../components/FormDrawer";
import { NameSelect } from "../../components/NameSelect";
import { TenantSelect } from "../../components/TenantSelect";
import { useClasses } from "../../hooks/useClasses";
import { useCreateContract, useEditContract } from "../../hooks/useContracts";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { classLine } from "../deployments/classLine";
import { type ContractValues, changeOf, checkContract, NEW_CONTRACT, TIERS, valuesOf } from "./contractForm";
import classes from "./Slas.module.css";

const words = t.slas.contracts.form;

type Limit = keyof typeof words.fields;
const LIMITS: { name: Limit; min: number; step: number }[] = [
  { name: "guaranteed_requests_per_min", min: 1, step: 10 },
  { name: "burst_requests_per_min", min: 0, step: 10 },
  { name: "guaranteed_tokens_per_min", min: 1, step: 1000 },
  { name: "burst_tokens_per_min", min: 0, step: 1000 },
  { name: "max_concurrency", min: 1, step: 1 },
  { name: "weight", min: 1, step: 1 },
];

const WHEN_LATE = ["queue", "degrade", "refuse"] as const;

interface FormProps {
  initial: ContractValues;
  editing: boolean;
  onSubmit: (values: ContractValues) => void;
  drawer: Omit<Parameters<typeof FormDrawer>[0], "onSubmit" | "children">;
  notice: ReactNode;
}

function ContractForm({ initial, editing, onSubmit, drawer, notice }: FormProps) {
  const form = useForm({ initialValues: initial, validate: (values) => checkContract(values) });
  const levels = useClasses();
  const level = levels.data?.find((one) => one.id === form.values.service_class);
  const names = (levels.data ?? []).map((one) => ({ value: one.id, label: one.name }));
  return (
    <FormDrawer {...drawer} size={560} onSubmit={form.onSubmit(onSubmit)}>
      {notice}
      <TenantSelect disabled={editing} {...form.getInputProps("tenant")} />
      <NameSelect
        kind="deployment"
        tenant={undefined}
        label={words.deployment}
        description={words.deploymentHint}
        placeholder={words.choose}
        disabled={editing}
        {...form.getInputProps("deployment")}
      />
      <Select
        label={words.class}
        description={level ? classLine(level) : words.classHint}
        placeholder={words.choose}
        data={names}
        allowDeselect={false}
        {...form.getInputProps("service_class")}
      />
      <fieldset className={classes.group}>
        <legend>{words.tiers}</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          {TIERS.map((tier) => (
            <Select
              key={tier}
              label={tier}
              placeholder={words.noTier}
              data={names}
              clearable
              {...form.getInputProps(`tiers.${tier}`)}
            />
          ))}
        </SimpleGrid>
      </fieldset>
      <Select
        label={words.late}
        description={words.lateHint}
        data={WHEN_LATE.map((value) => ({ value, label: t.slas.contracts.whenLate[value] }))}
        allowDeselect={false}
        {...form.getInputProps("when_late")}
      />
      <fieldset className={classes.group}>
        <legend>{words.limits}</legend>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
          {LIMITS.map(({ name, ...range }) => (
            <NumberInput
              key={name}
              label={words.fields[name].label}
              description={words.fields[name].hint}
              placeholder={words.none}
              allowDecimal={false}
              allowNegative={false}
              thousandSeparator=","
              {...range}
              {...form.getInputProps(name)}
            />
          ))}
        </SimpleGrid>
      </fieldset>
      <BudgetFields inputProps={form.getInputProps} />
      <TextInput
        type="datetime-local"
        label={words.from}
        description={words.fromHint}
        {...form.getInputProps("valid_from")}
      />
    </FormDrawer>
  );
}

interface Props {
  creating: boolean;
  id: string | undefined;
  onClose: () => void;
}

/** A new contract, or a change: the next version of one, from now or from a time to come. */
export function ContractDrawer({ creating, id, onClose }: Props) {
  const { current } = useScope();
  const create = useCreateContract();
  const edit = useEditContract(id);
  const close = () => {
    create.reset();
    edit.reset();
    onClose();
  };
  const done = (message: string) => () => {
    notifications.show({ message });
    close();
  };
  const submit = (values: ContractValues) => {
    const change = changeOf(values);
    if (id) return edit.save(change, done(t.slas.contracts.changed));
    const body = { ...change, tenant: values.tenant, deployment: values.deployment };
    return create.mutate(body, { onSuccess: done(t.slas.contracts.created) });
  };
  const drawer = {
    opened: creating || id !== undefined,
    title: id ? t.slas.contracts.change : t.slas.contracts.create,
    submit: id ? t.actions.save : t.actions.create,
    busy: create.isPending || edit.busy,
    error: create.error ?? edit.error,
    onClose: close,
    disabled: edit.loading,
    testId: "contract-form",
  };
  if (id && !edit.opened) {
    return (
      <FormDrawer {...drawer} size={560} onSubmit={(event) => event.preventDefault()}>
        <Skeleton height={300} />
      </FormDrawer>
    );
  }
  return (
    <ContractForm
      key={`${id ?? "new"} ${edit.version}`}
      initial={edit.opened ? valuesOf(edit.opened) : { ...NEW_CONTRACT, tenant: current?.tenant ?? "" }}
      editing={id !== undefined}
      onSubmit={submit}
      drawer={drawer}
      notice={
        id && (
          <>
            <ConflictNotice edit={edit as never} />
            <Alert variant="light" p="xs">
              {words.newVersion}
            </Alert>
          </>
        )
      }
    />
  );
}
