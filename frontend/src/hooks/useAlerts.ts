import { useMutation, useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";
import type { AlertRoute, AlertRouteChange, AlertRouteCreate } from "../api/types";
import { useAct } from "./useAct";
import { useCreate } from "./useCreate";
import { useEdit } from "./useEdit";
import { useRefresh } from "./useRefresh";

/** What is wrong now, the newest first. */
export function useFiring(tenant: string | undefined) {
  return useQuery({
    queryKey: ["alerts", tenant ?? null, "firing"],
    refetchInterval: 15_000,
    queryFn: () => unwrap(api.GET("/api/v1/alerts", { params: { query: { tenant, state: "firing" } } })),
  });
}

export function useAlertRoutes(tenant: string | undefined) {
  return useQuery({
    queryKey: ["alert-routes", tenant ?? null],
    // How a test went is known a moment after it was sent
    refetchInterval: 5_000,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/alerts/routes", { params: { query: { tenant, cursor } } })),
      ),
  });
}

export function useCreateRoute() {
  return useCreate(
    (body: AlertRouteCreate, headers) => api.POST("/api/v1/alerts/routes", { body, headers }),
    ["alert-routes"],
  );
}

export function useEditRoute(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit({
    key: id === undefined ? null : ["alert-routes", id],
    read: () => api.GET("/api/v1/alerts/routes/{id}", { params }),
    write: (body: AlertRouteChange, headers) =>
      api.PATCH("/api/v1/alerts/routes/{id}", { params, headers, body }),
    refresh: ["alert-routes"],
  });
}

export function useDeleteRoute() {
  return useAct({
    seen: (route: AlertRoute) => [route.name, route.target, route.events, route.enabled],
    read: (id) => api.GET("/api/v1/alerts/routes/{id}", { params: { path: { id } } }),
    write: (id, _: undefined, headers) =>
      api.DELETE("/api/v1/alerts/routes/{id}", { params: { path: { id } }, headers }),
    refresh: ["alert-routes"],
  });
}

/** Sends a message that says it is a test; changes nothing. */
export function useTestRoute() {
  const onSuccess = useRefresh(["alert-routes"]);
  return useMutation({
    mutationFn: (id: string) =>
      unwrap(api.POST("/api/v1/alerts/routes/{id}/test", { params: { path: { id } } })),
    onSuccess,
  });
}
