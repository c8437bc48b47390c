import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import type { ReactNode } from "react";
import classes from "./DataTable.module.css";

type Sorted = "asc" | "desc" | false;

interface Props {
  content: ReactNode;
  hide: "phone" | "tablet" | undefined;
  end: boolean | undefined;
  sorted?: Sorted;
  toggle?: (event: unknown) => void;
  /** The server's field under this head, if it can sort by it, and the order in use. */
  server?: { field: string | undefined; value: string | undefined; set: (sort: string | undefined) => void };
}

/** The next order after a click: upwards, downwards, as it comes. */
export function nextOrder(field: string, value: string | undefined): string | undefined {
  if (value === field) return `-${field}`;
  return value === `-${field}` ? undefined : field;
}

function orderOf(server: Props["server"]): Sorted {
  if (!server?.field) return false;
  if (server.value === server.field) return "asc";
  return server.value === `-${server.field}` ? "desc" : false;
}

export function SortHead({ content, hide, end, sorted = false, toggle, server }: Props) {
  const order = server ? orderOf(server) : sorted;
  const field = server?.field;
  const click = server && field ? () => server.set(nextOrder(field, server.value)) : toggle;
  return (
    <th
      scope="col"
      data-hide={hide}
      data-end={end || undefined}
      aria-sort={order ? (order === "asc" ? "ascending" : "descending") : undefined}
    >
      {click ? (
        <button type="button" className={classes.sort} onClick={click}>
          {content}
          {order === "asc" && <IconArrowUp size={12} aria-hidden="true" />}
          {order === "desc" && <IconArrowDown size={12} aria-hidden="true" />}
        </button>
      ) : (
        content
      )}
    </th>
  );
}
