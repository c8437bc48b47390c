import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";
import type { ClassChange, ClassCreate, ServiceClass, ServiceClassDetail } from "../api/types";
import { useAct } from "./useAct";
import { useCreate } from "./useCreate";
import { useEdit } from "./useEdit";

export function useClasses() {
  return useQuery({
    queryKey: ["classes"],
    staleTime: 60_000,
    queryFn: () => collect((cursor) => unwrap(api.GET("/api/v1/classes", { params: { query: { cursor } } }))),
  });
}

export function useCreateClass() {
  return useCreate(
    (body: ClassCreate, headers) => api.POST("/api/v1/classes", { body, headers }),
    ["classes"],
  );
}

/** Contracts of the class go on under a new version, so they are read again too. */
export function useEditClass(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit<ServiceClass, ClassChange>({
    key: id ? ["classes", id] : null,
    read: () => api.GET("/api/v1/classes/{id}", { params }),
    write: (body, headers) => api.PATCH("/api/v1/classes/{id}", { params, body, headers }),
    refresh: ["classes", "contracts"],
  });
}

export function useDeleteClass() {
  return useAct({
    seen: (level: ServiceClassDetail) => ({ ...level, contracts_open: null, deployments: null }),
    read: (id) => api.GET("/api/v1/classes/{id}", { params: { path: { id } } }),
    write: (id, _: undefined, headers) =>
      api.DELETE("/api/v1/classes/{id}", { params: { path: { id } }, headers }),
    refresh: ["classes"],
  });
}
