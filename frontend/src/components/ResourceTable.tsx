import { Button } from "@mantine/core";
import { IconFilterOff } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Page } from "../api/client";
import type { ListState } from "../hooks/useList";
import { t } from "../i18n";
import { type Column, DataTable } from "./DataTable";
import { EmptyState } from "./EmptyState";
import { ErrorState } from "./ErrorState";
import { Pager } from "./Pager";
import { Panel } from "./Panel";
import { type Asked, StaleNotice } from "./StaleNotice";

interface Props<Row extends object> {
  // biome-ignore lint/suspicious/noExplicitAny: whichever filters the page has
  list: ListState<any>;
  /** Its `isPlaceholderData`: the rows are those of the question before. */
  page: Asked<Page<Row>> & { isPlaceholderData?: boolean; isFetching?: boolean };
  columns: Column<Row>[];
  rowId: (row: Row) => string;
  label: string;
  /** Shown where there is nothing at all, not where filters hide it. */
  empty: ReactNode;
  onOpen?: (row: Row) => void;
  testId?: string;
}

/** One page of a server's list with every state it can be in. */
export function ResourceTable<Row extends object>({ list, page, empty, ...table }: Props<Row>) {
  if (page.error && !page.data) {
    return (
      <Panel flush>
        <ErrorState error={page.error} retry={() => void page.refetch()} />
      </Panel>
    );
  }
  const noMatch = (
    <EmptyState
      icon={<IconFilterOff size={20} stroke={1.6} />}
      title={t.kit.filter.noMatch}
      text={t.kit.filter.noMatchText}
    >
      <Button variant="default" onClick={list.clear}>
        {t.kit.filter.clear}
      </Button>
    </EmptyState>
  );
  return (
    <>
      <StaleNotice asked={page} />
      <Panel flush>
        <DataTable
          {...table}
          rows={page.data?.results}
          old={page.isPlaceholderData && page.isFetching}
          sort={{ value: list.sort, set: list.setSort }}
          empty={list.filtered || list.query.cursor ? noMatch : empty}
        />
        <Pager list={list} page={page.data} />
      </Panel>
    </>
  );
}
