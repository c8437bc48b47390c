import classes from "./FactGrid.module.css";
import type { Fact } from "./Facts";
import { Hint } from "./Hint";

interface Props {
  rows: (Fact & { wide?: boolean })[];
}

/** What is known of one object, at the top of its page: a cell each, `wide` ones over two. */
export function FactGrid({ rows }: Props) {
  return (
    <dl className={classes.facts}>
      {rows.map(({ label, value, hint, wide }) => (
        <div key={label} className={classes.fact} data-wide={wide || undefined}>
          <dt>
            {label}
            {hint && <Hint text={hint} />}
          </dt>
          <dd className="num">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
