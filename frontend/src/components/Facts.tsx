import type { ReactNode } from "react";
import classes from "./Facts.module.css";
import { Hint } from "./Hint";

export interface Fact {
  label: string;
  value: ReactNode;
  hint?: string;
}

/** What is known of one object: names at the left, values at the right. */
export function Facts({ rows }: { rows: Fact[] }) {
  return (
    <dl className={classes.facts}>
      {rows.map(({ label, value, hint }) => (
        <div key={label} className={classes.row}>
          <dt>
            {label}
            {hint && <Hint text={hint} />}
          </dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
