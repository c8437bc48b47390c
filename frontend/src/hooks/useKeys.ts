import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { Key, KeyChange, KeyCreate } from "../api/types";
import { useAct } from "./useAct";
import { useCreate } from "./useCreate";
import { useEdit } from "./useEdit";
import type { ListQuery } from "./useList";

/** Keys that may still work, or all there are; the playground's own are never listed. */
export function useKeyPage(tenant: string | undefined, query: ListQuery, all: boolean) {
  const revoked = all ? undefined : false;
  return useQuery({
    queryKey: ["keys", tenant ?? null, query, all],
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/keys", { params: { query: { tenant, ...query, revoked } } })),
  });
}

/** Answers the token, which the server shows once; it is held in memory only. */
export function useCreateKey() {
  return useCreate((body: KeyCreate, headers) => api.POST("/api/v1/keys", { body, headers }), ["keys"]);
}

export function useEditKey(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit({
    key: id === undefined ? null : ["keys", id],
    read: () => api.GET("/api/v1/keys/{id}", { params }),
    write: (body: KeyChange, headers) => api.PATCH("/api/v1/keys/{id}", { params, headers, body }),
    refresh: ["keys"],
  });
}

export function useRotateKey() {
  return useCreate(
    ({ id, grace_seconds }: { id: string; grace_seconds: number }, headers) =>
      api.POST("/api/v1/keys/{id}/rotate", { params: { path: { id } }, headers, body: { grace_seconds } }),
    ["keys"],
  );
}

export function useRevokeKey() {
  return useAct({
    seen: (key: Key) => [key.name, key.deployments, key.expires_at, key.revoked_at],
    read: (id) => api.GET("/api/v1/keys/{id}", { params: { path: { id } } }),
    write: (id, _: undefined, headers) =>
      api.POST("/api/v1/keys/{id}/revoke", { params: { path: { id } }, headers }),
    refresh: ["keys"],
  });
}
