import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";
import type { FitRequest } from "../api/types";

export function useModels() {
  return useQuery({
    queryKey: ["models"],
    refetchInterval: (query) => (query.state.data?.some((m) => m.state === "registering") ? 2_000 : false),
    queryFn: () => collect((cursor) => unwrap(api.GET("/api/v1/models", { params: { query: { cursor } } }))),
  });
}

/** What a deployment of the model would need, and on which device it fits. */
export function useFit(model: string | null, body: FitRequest) {
  return useQuery({
    queryKey: ["fit", model, body],
    enabled: model !== null,
    placeholderData: keepPreviousData,
    queryFn: () =>
      unwrap(api.POST("/api/v1/models/{id}/fit", { params: { path: { id: model ?? "" } }, body })),
  });
}
