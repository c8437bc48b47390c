import { Skeleton, VisuallyHidden } from "@mantine/core";
import {
  type ColumnDef,
  createSortedRowModel,
  rowSortingFeature,
  type SortingState,
  sortFn_basic,
  sortFn_text,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { type ReactNode, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { t } from "../i18n";
import { DataRow } from "./DataRow";
import classes from "./DataTable.module.css";
import { RowPager } from "./RowPager";
import { SortHead } from "./SortHead";

/**
 * `hide`: below which width a column gives way; `end`: numbers stand at the right; `order`: the field by which the
 * server can sort, where it sorts.
 */
interface ColumnHints {
  hide?: "phone" | "tablet";
  end?: boolean;
  order?: string;
}

export const features = tableFeatures({
  columnMeta: {} as ColumnHints,
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { text: sortFn_text, basic: sortFn_basic },
});

export type Column<Row extends object> = ColumnDef<typeof features, Row, unknown>;

/** The last column, of menus and buttons: its head is for screen readers only. */
export const ACTIONS = {
  id: "actions",
  header: () => <VisuallyHidden>{t.actions.column}</VisuallyHidden>,
  enableSorting: false,
  meta: { end: true },
} as const;

interface Props<Row extends object> {
  rows: Row[] | undefined;
  columns: Column<Row>[];
  rowId: (row: Row) => string;
  label: string;
  empty: ReactNode;
  initialSort?: SortingState;
  /** The rows are of another order or page than was asked for: shown paler until those come. */
  old?: boolean;
  testId?: string;
  /** Given where the server sorts: the order in use (`-created_at`) and how to ask for another. */
  sort?: { value: string | undefined; set: (sort: string | undefined) => void };
  /** What a click or Enter on a row does. */
  onOpen?: (row: Row) => void;
}

const SKELETON_ROWS = ["a", "b", "c"];
/** More are drawn a page at a time: a thousand rows at once would hold up every answer to a person. */
export const ROWS_AT_ONCE = 50;
/** Of more rows than these the paint that answers a click shows the skeleton: they are drawn in slices after it. */
const AT_ONCE = 10;
/** Rows under a head. Without `sort` they are all here, and sorted and paged in the browser. */
export function DataTable<Row extends object>({
  rows: given,
  columns,
  rowId,
  label,
  empty,
  initialSort = [],
  old = false,
  testId,
  sort,
  onOpen,
}: Props<Row>) {
  const [none] = useState<Row[]>([]);
  const rows = useDeferredValue(given, given && given.length > AT_ONCE ? undefined : given);
  const [initialState] = useState({ sorting: initialSort });
  const table = useTable({ features, columns, data: rows ?? none, getRowId: rowId, initialState });
  const [page, setPage] = useState(0);
  const all = table.getRowModel().rows;
  const whole = sort !== undefined || all.length <= ROWS_AT_ONCE;
  // Filters may have taken the page that was looked at
  const first = whole ? 0 : Math.min(page, Math.ceil(all.length / ROWS_AT_ONCE) - 1) * ROWS_AT_ONCE;
  const chosen = useMemo(() => (whole ? all : all.slice(first, first + ROWS_AT_ONCE)), [all, whole, first]);
  // The head and the pager answer a click at once, the rows follow
  const drawn = useDeferredValue(chosen);
  // Others than are drawn, not the same told anew
  const follow = !!rows?.[0] && !!given?.[0] && rowId(rows[0]) !== rowId(given[0]);
  const passing = old || follow || drawn !== chosen;
  const opening = useRef(onOpen);
  useEffect(() => {
    opening.current = onOpen;
  });
  const open = useCallback((row: Row) => opening.current?.(row), []);
  if (given && given.length === 0) return empty;
  const pager = !whole && (
    <RowPager
      first={first}
      drawn={chosen.length}
      all={all.length}
      step={(by) => setPage(first / ROWS_AT_ONCE + by)}
    />
  );
  return (
    <>
      <div className={classes.scroll}>
        <table className={classes.table} aria-label={label} aria-busy={!rows || passing} data-testid={testId}>
          <thead>
            {table.getHeaderGroups().map((group) => (
              <tr key={group.id}>
                {group.headers.map((header) => {
                  const hints = header.column.columnDef.meta ?? {};
                  const content = <table.FlexRender header={header} />;
                  const place = { hide: hints.hide, end: hints.end };
                  if (sort)
                    return (
                      <SortHead
                        key={header.id}
                        {...place}
                        server={{ field: hints.order, ...sort }}
                        content={content}
                      />
                    );
                  const toggle = header.column.getCanSort()
                    ? header.column.getToggleSortingHandler()
                    : undefined;
                  return (
                    <SortHead
                      key={header.id}
                      {...place}
                      sorted={header.column.getIsSorted()}
                      toggle={
                        toggle &&
                        ((event) => {
                          setPage(0);
                          toggle(event);
                        })
                      }
                      content={content}
                    />
                  );
                })}
              </tr>
            ))}
          </thead>
          <tbody data-passing={passing || undefined}>
            {!rows &&
              SKELETON_ROWS.map((key) => (
                <tr key={key}>
                  <td colSpan={columns.length}>
                    <Skeleton height={18} my={5} />
                  </td>
                </tr>
              ))}
            {drawn.map((row) => (
              <DataRow key={row.id} row={row} columns={columns} open={onOpen && open} />
            ))}
          </tbody>
        </table>
      </div>
      {pager}
    </>
  );
}
