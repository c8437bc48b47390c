import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";
import type { DeploymentCreate } from "../api/types";

export function useDeployments(tenant: string | undefined) {
  return useQuery({
    queryKey: ["deployments", "list", tenant ?? null],
    refetchInterval: 10_000,
    queryFn: () =>
      collect((cursor) => unwrap(api.GET("/api/v1/deployments", { params: { query: { tenant, cursor } } }))),
  });
}

export function useDeployment(id: string) {
  return useQuery({
    queryKey: ["deployments", "one", id],
    refetchInterval: 5_000,
    queryFn: () => unwrap(api.GET("/api/v1/deployments/{id}", { params: { path: { id } } })),
  });
}

function useRefresh() {
  const queries = useQueryClient();
  return () =>
    Promise.all(
      ["deployments", "replicas", "contracts"].map((key) => queries.invalidateQueries({ queryKey: [key] })),
    );
}

export function useCreateDeployment() {
  const onSuccess = useRefresh();
  return useMutation({
    mutationFn: (body: DeploymentCreate) => unwrap(api.POST("/api/v1/deployments", { body })),
    onSuccess,
  });
}

export type Change =
  | { verb: "start" }
  | { verb: "stop" }
  | { verb: "delete" }
  | { verb: "scale"; replicas: number }
  | { verb: "clone"; name: string };

/** start, stop, scale, clone or delete one deployment. */
export function useChangeDeployment() {
  const onSuccess = useRefresh();
  return useMutation({
    onSuccess,
    mutationFn: async ({ id, change }: { id: string; change: Change }): Promise<void> => {
      const params = { path: { id } };
      if (change.verb === "start") await unwrap(api.POST("/api/v1/deployments/{id}/start", { params }));
      else if (change.verb === "stop") await unwrap(api.POST("/api/v1/deployments/{id}/stop", { params }));
      else if (change.verb === "delete") await unwrap(api.DELETE("/api/v1/deployments/{id}", { params }));
      else if (change.verb === "scale") {
        await unwrap(
          api.POST("/api/v1/deployments/{id}/scale", { params, body: { replicas: change.replicas } }),
        );
      } else
        await unwrap(api.POST("/api/v1/deployments/{id}/clone", { params, body: { name: change.name } }));
    },
  });
}
