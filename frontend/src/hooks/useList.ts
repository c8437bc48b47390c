import { useCallback, useMemo } from "react";
import { searched } from "../i18n";
import type { TextSearch } from "../lib/search";
import { useUrl } from "./useUrl";

export const PAGE_SIZES = ["25", "50", "100"] as const;

interface Options<Name extends string> {
  /** Parameters that filter; `q` is the search text. */
  filters: readonly Name[];
  /** How the server orders when nothing is asked: shown in the head, not sent. */
  sort?: string;
}

export interface ListQuery {
  search?: string;
  ordering?: string;
  cursor?: string;
  page_size?: number;
}

export interface ListState<Name extends string = string> {
  /** What a list's GET takes: filters by their name, `q` as search. */
  query: ListQuery & Partial<Record<Exclude<Name, "q">, string>>;
  values: Partial<Record<Name, string>>;
  sort: string | undefined;
  pageSize: string;
  filtered: boolean;
  set: (patch: Partial<Record<Name, string | undefined>>) => void;
  setSort: (sort: string | undefined) => void;
  setCursor: (cursor: string | undefined) => void;
  setPageSize: (size: string) => void;
  clear: () => void;
}

/** Filters, order and page of a list, kept in the URL. Whatever changes which rows there are starts at the first page. */
export function useList<Name extends string>({ filters, sort }: Options<Name>): ListState<Name> {
  const url = useUrl();
  const text = JSON.stringify(url.values);
  const names = filters.join();
  const change = useCallback(
    (patch: TextSearch, push = false) => url.set({ cursor: undefined, ...patch }, push),
    [url.set],
  );
  return useMemo(() => {
    const all = JSON.parse(text) as TextSearch;
    const values: TextSearch = {};
    for (const name of names.split(",")) if (all[name]) values[name] = all[name];
    const { q, ...rest } = values;
    const query: ListQuery = { ...rest };
    if (q) query.search = searched(q);
    if (all.sort) query.ordering = all.sort;
    if (all.cursor) query.cursor = all.cursor;
    const pageSize = all.page_size ?? PAGE_SIZES[0];
    query.page_size = Number(pageSize);
    return {
      query: query as ListState<Name>["query"],
      values: values as ListState<Name>["values"],
      sort: all.sort ?? sort,
      pageSize,
      filtered: Object.keys(values).length > 0,
      set: (patch) => change(patch as TextSearch),
      setSort: (next) => change({ sort: next }),
      setCursor: (cursor) => change({ cursor }, true),
      setPageSize: (size) => change({ page_size: size === PAGE_SIZES[0] ? undefined : size }),
      clear: () => change(Object.fromEntries(names.split(",").map((name) => [name, undefined]))),
    };
  }, [text, names, sort, change]);
}
