import { ActionIcon } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { t } from "../i18n";
import classes from "./Pager.module.css";

interface Props {
  /** Undefined at the first page. */
  previous: (() => void) | undefined;
  /** Undefined at the last page. */
  next: (() => void) | undefined;
}

/** One page back, one page on. */
export function PageSteps({ previous, next }: Props) {
  const words = t.kit.table;
  return (
    <span className={classes.steps}>
      <ActionIcon variant="default" aria-label={words.previous} disabled={!previous} onClick={previous}>
        <IconChevronLeft size={16} stroke={1.6} />
      </ActionIcon>
      <ActionIcon variant="default" aria-label={words.next} disabled={!next} onClick={next}>
        <IconChevronRight size={16} stroke={1.6} />
      </ActionIcon>
    </span>
  );
}
