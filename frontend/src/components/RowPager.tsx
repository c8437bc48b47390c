import { t } from "../i18n";
import { integer } from "../lib/format";
import classes from "./Pager.module.css";
import { PageSteps } from "./PageSteps";

interface Props {
  /** Of the rows, from 0. */
  first: number;
  drawn: number;
  all: number;
  step: (by: 1 | -1) => void;
}

/** Backwards and forwards through rows that are all here. */
export function RowPager({ first, drawn, all, step }: Props) {
  const words = t.kit.table;
  return (
    <nav className={classes.pager} aria-label={words.pages}>
      <span className={`${classes.at} num`} aria-live="polite">
        {words.at(integer(first + 1), integer(first + drawn), integer(all))}
      </span>
      <PageSteps
        previous={first > 0 ? () => step(-1) : undefined}
        next={first + drawn < all ? () => step(1) : undefined}
      />
    </nav>
  );
}
