import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";

export function useReplicas(deployment: string) {
  return useQuery({
    queryKey: ["replicas", deployment],
    refetchInterval: 5_000,
    queryFn: () =>
      collect((cursor) => unwrap(api.GET("/api/v1/replicas", { params: { query: { deployment, cursor } } }))),
  });
}

export function useReplicaLogs(replica: string | undefined, follow: boolean) {
  return useQuery({
    queryKey: ["logs", replica],
    enabled: replica !== undefined,
    refetchInterval: follow ? 1_500 : false,
    queryFn: () => unwrap(api.GET("/api/v1/replicas/{id}/logs", { params: { path: { id: replica ?? "" } } })),
  });
}
