import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";
import type { KeyCreate } from "../api/types";

export function useKeys(tenant: string | undefined) {
  return useQuery({
    queryKey: ["keys", tenant ?? null],
    queryFn: () =>
      collect((cursor) => unwrap(api.GET("/api/v1/keys", { params: { query: { tenant, cursor } } }))),
  });
}

/** Answers the token, which the server shows once; it is held in memory only. */
export function useCreateKey() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: KeyCreate) => unwrap(api.POST("/api/v1/keys", { body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["keys"] }),
  });
}

export function useRevokeKey() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => unwrap(api.POST("/api/v1/keys/{id}/revoke", { params: { path: { id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["keys"] }),
  });
}
