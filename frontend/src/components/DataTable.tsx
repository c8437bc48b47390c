import { Skeleton } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
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
import { type ReactNode, useState } from "react";
import classes from "./DataTable.module.css";

/** `hide`: below which width a column gives way; `end`: numbers stand at the right. */
interface ColumnHints {
  hide?: "phone" | "tablet";
  end?: boolean;
}

const features = tableFeatures({
  columnMeta: {} as ColumnHints,
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { text: sortFn_text, basic: sortFn_basic },
});

export type Column<Row extends object> = ColumnDef<typeof features, Row, unknown>;

interface Props<Row extends object> {
  rows: Row[] | undefined;
  columns: Column<Row>[];
  rowId: (row: Row) => string;
  label: string;
  empty: ReactNode;
  initialSort?: SortingState;
  testId?: string;
}

const SKELETON_ROWS = ["a", "b", "c"];

export function DataTable<Row extends object>({
  rows,
  columns,
  rowId,
  label,
  empty,
  initialSort = [],
  testId,
}: Props<Row>) {
  const [none] = useState<Row[]>([]);
  const [initialState] = useState({ sorting: initialSort });
  const table = useTable({ features, columns, data: rows ?? none, getRowId: rowId, initialState });
  if (rows && rows.length === 0) return empty;
  return (
    <div className={classes.scroll}>
      <table className={classes.table} aria-label={label} aria-busy={!rows} data-testid={testId}>
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => {
                const hints = header.column.columnDef.meta ?? {};
                const sorted = header.column.getIsSorted();
                const content = <table.FlexRender header={header} />;
                return (
                  <th
                    key={header.id}
                    scope="col"
                    data-hide={hints.hide}
                    data-end={hints.end || undefined}
                    aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}
                  >
                    {header.column.getCanSort() ? (
                      <button
                        type="button"
                        className={classes.sort}
                        onClick={header.column.getToggleSortingHandler()}
                      >
                        {content}
                        {sorted === "asc" && <IconArrowUp size={12} aria-hidden="true" />}
                        {sorted === "desc" && <IconArrowDown size={12} aria-hidden="true" />}
                      </button>
                    ) : (
                      content
                    )}
                  </th>
                );
              })}
            </tr>
          ))}
        </thead>
        <tbody>
          {!rows &&
            SKELETON_ROWS.map((key) => (
              <tr key={key}>
                <td colSpan={columns.length}>
                  <Skeleton height={18} my={5} />
                </td>
              </tr>
            ))}
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id} data-row={row.id}>
              {row.getAllCells().map((cell) => {
                const hints = cell.column.columnDef.meta ?? {};
                return (
                  <td key={cell.id} data-hide={hints.hide} data-end={hints.end || undefined}>
                    <table.FlexRender cell={cell} />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
