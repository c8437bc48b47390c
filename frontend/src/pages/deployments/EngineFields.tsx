import { NumberInput, Select } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import type { Model } from "../../api/types";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import classes from "./Deployments.module.css";
import { DTYPES, ENGINES, KV_DTYPES, MIB, type Values } from "./deploymentForm";

interface Props {
  form: UseFormReturnType<Values>;
  model: Model | undefined;
  disabled?: boolean;
}

/** How many tokens of K and V the memory holds. */
function tokensIn(model: Model, mib: number): number {
  return Math.floor((mib * MIB) / Math.max(1, model.kv_bytes_per_token));
}

/** What a replica is started with. */
export function EngineFields({ form, model, disabled }: Props) {
  const words = t.deployments.form;
  const given = (name: keyof Values) => ({ disabled, ...form.getInputProps(name) });
  return (
    <div className={classes.two}>
      <Select
        label={words.engine}
        data={ENGINES.map((value) => ({ value, label: words.engines[value] }))}
        allowDeselect={false}
        {...given("engine")}
      />
      <Select label={words.dtype} data={[...DTYPES]} allowDeselect={false} {...given("dtype")} />
      <NumberInput
        label={words.maxLen}
        placeholder={model ? String(model.context_length) : undefined}
        min={16}
        thousandSeparator
        {...given("max_model_len")}
      />
      <NumberInput label={words.maxSeqs} min={1} max={1024} {...given("max_num_seqs")} />
      <NumberInput
        label={words.kv}
        min={1}
        suffix=" MiB"
        description={model && words.kvHint(integer(tokensIn(model, form.values.kv_mib)))}
        thousandSeparator
        {...given("kv_mib")}
      />
      <Select
        label={words.kvDtype}
        data={KV_DTYPES.map((value) => ({ value, label: words.kvDtypes[value] }))}
        allowDeselect={false}
        {...given("kv_dtype")}
      />
    </div>
  );
}
