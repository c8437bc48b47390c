import { NativeSelect } from "@mantine/core";
import { cursorOf, type Page } from "../api/client";
import { type ListState, PAGE_SIZES } from "../hooks/useList";
import { t } from "../i18n";
import classes from "./Pager.module.css";
import { PageSteps } from "./PageSteps";

interface Props {
  // biome-ignore lint/suspicious/noExplicitAny: whichever filters the page has
  list: ListState<any>;
  page: Page<unknown> | undefined;
}

/** Backwards and forwards through a list that has more rows than one page; nothing where one page holds them all. */
export function Pager({ list, page }: Props) {
  const previous = cursorOf(page?.previous);
  const next = cursorOf(page?.next);
  const chosen = list.pageSize !== PAGE_SIZES[0];
  if (!previous && !next && !chosen) return null;
  return (
    <nav className={classes.pager} aria-label={t.kit.table.pages}>
      <NativeSelect
        size="xs"
        aria-label={t.kit.table.perPage}
        data={PAGE_SIZES.map((value) => ({ value, label: t.kit.table.rows(value) }))}
        value={list.pageSize}
        onChange={(event) => list.setPageSize(event.target.value)}
      />
      <PageSteps
        previous={previous ? () => list.setCursor(previous) : undefined}
        next={next ? () => list.setCursor(next) : undefined}
      />
    </nav>
  );
}
