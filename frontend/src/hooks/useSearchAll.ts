import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";

const LETTERS_AT_LEAST = 2;

/** Deployments, tenants, keys, models, nodes, members and requests by a part of their name or by id. */
export function useFound(q: string, tenant: string | undefined) {
  return useQuery({
    queryKey: ["search", q, tenant ?? null],
    enabled: q.length >= LETTERS_AT_LEAST,
    placeholderData: q.length >= LETTERS_AT_LEAST ? keepPreviousData : undefined,
    queryFn: () => unwrap(api.GET("/api/v1/search", { params: { query: { q, tenant } } })),
  });
}
