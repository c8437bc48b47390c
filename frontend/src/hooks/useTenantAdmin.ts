import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { QuotaChange, TenantChange, TenantCreate } from "../api/types";
import { useCreate } from "./useCreate";
import { useEdit } from "./useEdit";
import type { ListQuery } from "./useList";

const REFRESH = ["tenants", "me"];

export function useTenantList(query: ListQuery) {
  return useQuery({
    queryKey: ["tenants", "page", query],
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
    queryFn: () => unwrap(api.GET("/api/v1/tenants", { params: { query } })),
  });
}

export function useCreateTenant() {
  return useCreate((body: TenantCreate, headers) => api.POST("/api/v1/tenants", { body, headers }), REFRESH);
}

export function useEditTenant(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit({
    key: id === undefined ? null : ["tenants", id],
    read: () => api.GET("/api/v1/tenants/{id}", { params }),
    write: (body: TenantChange, headers) => api.PATCH("/api/v1/tenants/{id}", { params, headers, body }),
    refresh: REFRESH,
  });
}

/** Null takes the limit away. */
export function useEditQuota(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit({
    key: id === undefined ? null : ["tenants", id, "quota"],
    read: () => api.GET("/api/v1/tenants/{id}/quota", { params }),
    write: (body: QuotaChange | null, headers) =>
      body
        ? api.PUT("/api/v1/tenants/{id}/quota", { params, headers, body })
        : api.DELETE("/api/v1/tenants/{id}/quota", { params, headers }),
    refresh: REFRESH,
  });
}
