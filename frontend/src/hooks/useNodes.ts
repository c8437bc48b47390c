import { useMutation, useQuery } from "@tanstack/react-query";
import { type Answer, api, collect, unwrap, WHOLE } from "../api/client";
import type { Node } from "../api/fleet";
import { useAct } from "./useAct";
import { useRefresh } from "./useRefresh";

/** Agents report every 5 s; that is how old the figures of a device may be. */
const REPORT_MS = 5_000;

/** Every node, without its devices: the map has those. Operators only. */
export function useNodes(enabled = true) {
  return useQuery({
    queryKey: ["nodes", "list"],
    enabled,
    refetchInterval: REPORT_MS,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/nodes", { params: { query: { cursor, page_size: WHOLE, devices: false } } })),
      ),
  });
}

export function useNode(id: string, refetchMs = REPORT_MS) {
  return useQuery({
    queryKey: ["nodes", "one", id],
    enabled: id !== "",
    refetchInterval: refetchMs,
    queryFn: () => unwrap(api.GET("/api/v1/nodes/{id}", { params: { path: { id } } })),
  });
}

const CHANGED = ["nodes", "gpus", "fit", "fleet"];

/** Not waited for: a window closes once the change is taken. */
function useNodesRefresh() {
  const refresh = useRefresh(CHANGED);
  return () => void refresh();
}

/** Answers the node and, this once, its token. */
export function useCreateNode() {
  const onSuccess = useNodesRefresh();
  return useMutation({
    mutationFn: (name: string) => unwrap(api.POST("/api/v1/nodes", { body: { name } })),
    onSuccess,
  });
}

export type NodeVerb = "cordon" | "uncordon" | "drain" | "remove";

export function useChangeNode() {
  return useAct({
    seen: (node: Node) => [node.cordoned, node.drain?.requested_at],
    read: (id) => api.GET("/api/v1/nodes/{id}", { params: { path: { id } } }),
    write: (id, verb: NodeVerb, headers): Promise<Answer<unknown>> => {
      const options = { params: { path: { id } }, headers };
      if (verb === "cordon") return api.POST("/api/v1/nodes/{id}/cordon", options);
      if (verb === "uncordon") return api.POST("/api/v1/nodes/{id}/uncordon", options);
      if (verb === "drain") return api.POST("/api/v1/nodes/{id}/drain", options);
      return api.DELETE("/api/v1/nodes/{id}", options);
    },
    refresh: CHANGED,
  });
}

/** What fails together with the node; empty: the node alone. */
export function useSetDomain() {
  return useAct({
    seen: (node: Node) => node.fault_domain,
    read: (id) => api.GET("/api/v1/nodes/{id}", { params: { path: { id } } }),
    write: (id, fault_domain: string, headers) =>
      api.PATCH("/api/v1/nodes/{id}", { params: { path: { id } }, headers, body: { fault_domain } }),
    refresh: CHANGED,
  });
}

/** One row a minute of a device, oldest first; several minutes a row where many are asked for. */
export function useDeviceHistory(id: string | undefined, minutes: number) {
  return useQuery({
    queryKey: ["gpus", "history", id, minutes],
    enabled: id !== undefined,
    refetchInterval: 30_000,
    queryFn: () =>
      unwrap(
        api.GET("/api/v1/gpus/{id}/history", { params: { path: { id: id ?? "" }, query: { minutes } } }),
      ),
  });
}
