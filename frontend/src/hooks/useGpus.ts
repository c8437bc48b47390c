import { useQuery } from "@tanstack/react-query";
import { type Answer, api, unwrap } from "../api/client";
import type { Device } from "../api/fleet";
import { useAct } from "./useAct";

/** One device with what is wrong with it. */
export function useGpu(id: string | undefined) {
  return useQuery({
    queryKey: ["gpus", "one", id],
    enabled: id !== undefined,
    refetchInterval: 5_000,
    queryFn: () => unwrap(api.GET("/api/v1/gpus/{id}", { params: { path: { id: id ?? "" } } })),
  });
}

export type GpuChange = { verb: "fence"; reason: string } | { verb: "clear" };

type Judged = Pick<Device, "id" | "health">;

/** fence: out of use until it is cleared; clear: what was wrong is over. */
export function useChangeGpu() {
  return useAct({
    seen: (gpu: Judged) => gpu.health,
    read: (id): Promise<Answer<Judged>> => api.GET("/api/v1/gpus/{id}", { params: { path: { id } } }),
    write: (id, change: GpuChange, headers): Promise<Answer<unknown>> => {
      const options = { params: { path: { id } }, headers };
      if (change.verb === "clear") return api.POST("/api/v1/gpus/{id}/clear", options);
      return api.POST("/api/v1/gpus/{id}/fence", { ...options, body: { reason: change.reason } });
    },
    refresh: ["fleet", "gpus", "nodes", "fit"],
  });
}
