import { NumberInput, SimpleGrid } from "@mantine/core";
import { t } from "../i18n";
import { BUDGETS, type BudgetName } from "../lib/budgets";
import classes from "./RateLimitFields.module.css";

interface Props {
  /** `form.getInputProps` of a form that holds `BudgetValues`. */
  inputProps: (name: BudgetName) => object;
}

const TOKENS = { min: 1, max: Number.MAX_SAFE_INTEGER, step: 1_000_000, allowDecimal: false };
const MONEY = { min: 0.0001, max: 400_000_000, step: 10, decimalScale: 4 };

/** Budgets of a key, a tenant or a contract; an empty one is none. */
export function BudgetFields({ inputProps }: Props) {
  return (
    <fieldset className={classes.group}>
      <legend>{t.kit.budgets.legend}</legend>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        {BUDGETS.map((name) => (
          <NumberInput
            key={name}
            label={t.kit.budgets.fields[name]}
            placeholder={t.kit.budgets.none}
            allowNegative={false}
            thousandSeparator=","
            {...(name.startsWith("cost") ? MONEY : TOKENS)}
            {...inputProps(name)}
          />
        ))}
      </SimpleGrid>
    </fieldset>
  );
}
