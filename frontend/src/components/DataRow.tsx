import { FlexRender, type Row as TableRow } from "@tanstack/react-table";
import { type KeyboardEvent, type MouseEvent, memo } from "react";
import type { Column, features } from "./DataTable";

const INTERACTIVE = "a,button,input,label,[role=menu],[role=menuitem]";

/** Which row takes the focus from one on which a key was pressed. */
function neighbour(row: HTMLElement, key: string): Element | null | undefined {
  if (key === "ArrowDown" || key === "j") return row.nextElementSibling;
  if (key === "ArrowUp" || key === "k") return row.previousElementSibling;
  if (key === "Home") return row.parentElement?.firstElementChild;
  if (key === "End") return row.parentElement?.lastElementChild;
  return null;
}

/** Arrow keys, j and k, Home and End walk over the rows, Enter opens one; links in it stay links. */
function rowHandlers<Row>(row: Row, onOpen: ((row: Row) => void) | undefined) {
  if (!onOpen) return {};
  return {
    tabIndex: 0,
    "data-opens": true,
    onClick: (event: MouseEvent<HTMLElement>) => {
      const chosen = window.getSelection()?.toString();
      if (!chosen && !(event.target as HTMLElement).closest(INTERACTIVE)) onOpen(row);
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      if (event.target !== event.currentTarget) return;
      if (event.key === "Enter") onOpen(row);
      const next = neighbour(event.currentTarget, event.key);
      if (!(next instanceof HTMLElement)) return;
      event.preventDefault();
      next.focus();
    },
  };
}

interface Props<Row extends object> {
  row: TableRow<typeof features, Row>;
  columns: Column<Row>[];
  open: ((row: Row) => void) | undefined;
}

/** Drawn again only when what it shows is another: the table around it is drawn with every letter and click. */
export const DataRow = memo(
  function DataRow<Row extends object>({ row, open }: Props<Row>) {
    return (
      <tr data-row={row.id} {...rowHandlers(row.original, open)}>
        {row.getAllCells().map((cell) => {
          const hints = cell.column.columnDef.meta ?? {};
          return (
            <td key={cell.id} data-hide={hints.hide} data-end={hints.end || undefined}>
              <FlexRender cell={cell} />
            </td>
          );
        })}
      </tr>
    );
  },
  (before, after) =>
    before.row.id === after.row.id &&
    before.row.original === after.row.original &&
    before.columns === after.columns &&
    before.open === after.open,
) as <Row extends object>(props: Props<Row>) => React.ReactNode;
