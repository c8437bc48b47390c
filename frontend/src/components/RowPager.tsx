import { ActionIcon } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { t } from "../i18n";
import { integer } from "../lib/format";
import classes from "./Pager.module.css";

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
      <span className={classes.steps}>
        <ActionIcon
          variant="default"
          aria-label={words.previous}
          disabled={first === 0}
          onClick={() => step(-1)}
        >
          <IconChevronLeft size={16} stroke={1.6} />
        </ActionIcon>
        <ActionIcon
          variant="default"
          aria-label={words.next}
          disabled={first + drawn >= all}
          onClick={() => step(1)}
        >
          <IconChevronRight size={16} stroke={1.6} />
        </ActionIcon>
      </span>
    </nav>
  );
}
