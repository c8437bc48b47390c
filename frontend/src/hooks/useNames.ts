import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, type Page, unwrap } from "../api/client";

export interface Name {
  id: string;
  name: string;
}

/** What one chooses by name and of which there may be thousands. */
export type Named = "deployment" | "key" | "node";

interface Asked {
  tenant?: string;
  search?: string;
  ordering: string;
  page_size: number;
}

/** So many are offered at a time; the search finds the others. */
export const NAMES_AT_MOST = 50;

const LISTS: Record<Named, (query: Asked) => Promise<Page<Name>>> = {
  deployment: (query) => unwrap(api.GET("/api/v1/deployments", { params: { query } })),
  key: (query) => unwrap(api.GET("/api/v1/keys", { params: { query } })),
  node: ({ tenant: _, ...query }) =>
    unwrap(api.GET("/api/v1/nodes", { params: { query: { ...query, devices: false } } })),
};

const ONES: Record<Named, (id: string) => Promise<Name>> = {
  deployment: (id) => unwrap(api.GET("/api/v1/deployments/{id}", { params: { path: { id } } })),
  key: (id) => unwrap(api.GET("/api/v1/keys/{id}", { params: { path: { id } } })),
  node: (id) => unwrap(api.GET("/api/v1/nodes/{id}", { params: { path: { id } } })),
};

/** The first names that contain the text, in their order; `more` where there are others. */
export function useNames(kind: Named, q: string, tenant: string | undefined, enabled = true) {
  return useQuery({
    queryKey: [`${kind}s`, "names", q, tenant ?? null],
    enabled,
    staleTime: 30_000,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const asked = { tenant, search: q || undefined, ordering: "name", page_size: NAMES_AT_MOST };
      const page = await LISTS[kind](asked);
      return { names: page.results.map(({ id, name }): Name => ({ id, name })), more: Boolean(page.next) };
    },
  });
}

export const nameKey = (kind: Named, id: string | undefined) => [`${kind}s`, "name", id];

/** What an id from a link is called. */
export function useName(kind: Named, id: string | undefined) {
  return useQuery({
    queryKey: nameKey(kind, id),
    enabled: id !== undefined,
    staleTime: 60_000,
    queryFn: async () => (await ONES[kind](id ?? "")).name,
  });
}
