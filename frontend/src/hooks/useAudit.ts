import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { ListQuery } from "./useList";

interface AuditQuery extends ListQuery {
  action?: string;
  actor?: string;
  object?: string;
  from?: string;
  to?: string;
}

export function useAudit(tenant: string | undefined, query: AuditQuery) {
  return useQuery({
    queryKey: ["audit", tenant ?? null, query],
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
    queryFn: () => unwrap(api.GET("/api/v1/audit", { params: { query: { tenant, ...query } } })),
  });
}

export function useAuditEvent(id: string | undefined) {
  return useQuery({
    queryKey: ["audit", "one", id],
    enabled: id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => unwrap(api.GET("/api/v1/audit/{id}", { params: { path: { id: id ?? "" } } })),
  });
}
