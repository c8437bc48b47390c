import type { ReactNode } from "react";
import { Hint } from "./Hint";
import classes from "./Panel.module.css";

interface Props {
  title?: ReactNode;
  hint?: string;
  aside?: ReactNode;
  flush?: boolean;
  children: ReactNode;
}

/** A titled surface; `hint` says how what it shows is made. */
export function Panel({ title, hint, aside, flush = false, children }: Props) {
  return (
    <section className={classes.panel} data-flush={flush || undefined}>
      {title && (
        <div className={classes.head}>
          <h2 className={classes.title}>{title}</h2>
          {hint && <Hint text={hint} />}
          {aside && <div className={classes.aside}>{aside}</div>}
        </div>
      )}
      {children}
    </section>
  );
}
