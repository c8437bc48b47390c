import { NumberInput, SimpleGrid } from "@mantine/core";
import { t } from "../i18n";
import type { BudgetName } from "../lib/budgets";
import { RATE_LIMITS } from "../lib/rateLimits";
import { BudgetFields } from "./BudgetFields";
import classes from "./RateLimitFields.module.css";

const STEPS = { requests_per_minute: 10, tokens_per_minute: 1000, max_concurrency: 1 };

interface Props {
  hint: string;
  /** `form.getInputProps` of a form that holds `LimitValues`. */
  inputProps: (name: (typeof RATE_LIMITS)[number] | BudgetName) => object;
}

/** The limits and budgets of a key or a tenant; an empty one is none. */
export function RateLimitFields({ hint, inputProps }: Props) {
  const words = t.kit.limits;
  return (
    <>
      <fieldset className={classes.group}>
        <legend>{hint}</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          {RATE_LIMITS.map((name) => (
            <NumberInput
              key={name}
              label={words.fields[name]}
              placeholder={words.none}
              min={1}
              max={2 ** 31 - 1}
              step={STEPS[name]}
              allowDecimal={false}
              allowNegative={false}
              thousandSeparator=","
              {...inputProps(name)}
            />
          ))}
        </SimpleGrid>
      </fieldset>
      <BudgetFields inputProps={inputProps} />
    </>
  );
}
