import { keepPreviousData, useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { type Answer, api, collect, cursorOf, unwrap, WHOLE } from "../api/client";
import type { EventPage } from "../api/fleet";
import type { Deployment, DeploymentChange, DeploymentCreate } from "../api/types";
import { useAct } from "./useAct";
import { useEdit } from "./useEdit";
import type { ListQuery } from "./useList";
import { useRefresh } from "./useRefresh";

export function useDeployments(tenant: string | undefined) {
  return useQuery({
    queryKey: ["deployments", "list", tenant ?? null],
    refetchInterval: 10_000,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/deployments", { params: { query: { tenant, cursor, page_size: WHOLE } } })),
      ),
  });
}

export interface DeploymentFilters extends ListQuery {
  tenant?: string;
  desired_state?: string;
  model?: string;
}

/** One page, for a list that may have a thousand. */
export function useDeploymentPage(query: DeploymentFilters) {
  return useQuery({
    queryKey: ["deployments", "page", query],
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
    queryFn: () => unwrap(api.GET("/api/v1/deployments", { params: { query } })),
  });
}

/** What happened to a deployment, newest first; older ones on demand. */
export function useDeploymentEvents(id: string) {
  return useInfiniteQuery({
    queryKey: ["events", id],
    refetchInterval: 10_000,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: EventPage) => cursorOf(page.next),
    queryFn: ({ pageParam: cursor }) =>
      unwrap(api.GET("/api/v1/deployments/{id}/events", { params: { path: { id }, query: { cursor } } })),
  });
}

export function useDeployment(id: string | undefined) {
  return useQuery({
    queryKey: ["deployments", "one", id],
    enabled: id !== undefined,
    refetchInterval: 5_000,
    queryFn: () => unwrap(api.GET("/api/v1/deployments/{id}", { params: { path: { id: id ?? "" } } })),
  });
}

const CHANGED = ["deployments", "replicas", "contracts", "events"];

/** Not waited for: the window closes once the change is taken, however long the lists take to follow. */
function useDeploymentsRefresh() {
  const refresh = useRefresh(CHANGED);
  return () => void refresh();
}

export function useCreateDeployment() {
  const onSuccess = useDeploymentsRefresh();
  return useMutation({
    mutationFn: (body: DeploymentCreate) => unwrap(api.POST("/api/v1/deployments", { body })),
    onSuccess,
  });
}

export function useEditDeployment(id: string | undefined) {
  const params = { path: { id: id ?? "" } };
  return useEdit({
    key: id === undefined ? null : ["deployments", id],
    read: () => api.GET("/api/v1/deployments/{id}", { params }),
    write: (body: DeploymentChange, headers) =>
      api.PATCH("/api/v1/deployments/{id}", { params, headers, body }),
    refresh: CHANGED,
  });
}

export type Change =
  | { verb: "start" }
  | { verb: "stop" }
  | { verb: "delete" }
  | { verb: "scale"; replicas: number }
  | { verb: "class"; service_class: string }
  | { verb: "clone"; name: string };

/** start, stop, scale, clone, delete or reclass one deployment. */
export function useChangeDeployment() {
  return useAct({
    seen: (d: Deployment) => [d.desired_state, d.replica_count, d.service_class.id, d.model.id],
    read: (id) => api.GET("/api/v1/deployments/{id}", { params: { path: { id } } }),
    write: (id, change: Change, headers): Promise<Answer<unknown>> => {
      const options = { params: { path: { id } }, headers };
      if (change.verb === "start") return api.POST("/api/v1/deployments/{id}/start", options);
      if (change.verb === "stop") return api.POST("/api/v1/deployments/{id}/stop", options);
      if (change.verb === "delete") return api.DELETE("/api/v1/deployments/{id}", options);
      if (change.verb === "class") {
        const body = { service_class: change.service_class };
        return api.POST("/api/v1/deployments/{id}/class", { ...options, body });
      }
      if (change.verb === "scale") {
        return api.POST("/api/v1/deployments/{id}/scale", {
          ...options,
          body: { replicas: change.replicas },
        });
      }
      return api.POST("/api/v1/deployments/{id}/clone", { ...options, body: { name: change.name } });
    },
    refresh: CHANGED,
  });
}
