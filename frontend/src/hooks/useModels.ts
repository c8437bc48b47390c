import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { api, collect, unwrap, WHOLE } from "../api/client";
import type { ModelCreate } from "../api/fleet";
import type { FitRequest, Model } from "../api/types";
import { inTurn } from "../lib/turns";
import { useAct } from "./useAct";
import { useRefresh } from "./useRefresh";

const COMING_MS = 1_000;

/** Beside what the socket tells: while one is on its way in, bytes move faster than changes are told. */
export function useModels(tenant?: string) {
  return useQuery({
    queryKey: ["models", "list", tenant ?? null],
    refetchInterval: (query) =>
      query.state.data?.some((m) => m.state === "registering") ? COMING_MS : false,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/models", { params: { query: { tenant, cursor, page_size: WHOLE } } })),
      ),
  });
}

export function useModel(id: string | undefined) {
  return useQuery({
    queryKey: ["models", "one", id],
    enabled: id !== undefined,
    refetchInterval: (query) => (query.state.data?.state === "registering" ? COMING_MS : false),
    queryFn: () => unwrap(api.GET("/api/v1/models/{id}", { params: { path: { id: id ?? "" } } })),
  });
}

/** What a deployment of the model would need, and on which device it fits. */
export function useFit(model: string | null, body: FitRequest) {
  return useQuery({
    queryKey: ["fit", model, body],
    enabled: model !== null,
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
    // A list asks for each of its rows: not all at once, and no longer once it is left
    queryFn: ({ signal }) =>
      inTurn(signal, () =>
        unwrap(api.POST("/api/v1/models/{id}/fit", { params: { path: { id: model ?? "" } }, body, signal })),
      ),
  });
}

export function useRegisterModel() {
  const onSuccess = useRefresh(["models"]);
  return useMutation({
    mutationFn: (body: ModelCreate) => unwrap(api.POST("/api/v1/models", { body })),
    onSuccess,
  });
}

/** cancel: of one that is on its way in; retry: of one that failed or was cancelled. */
export function useSteerModel(verb: "cancel" | "retry") {
  const onSuccess = useRefresh(["models"]);
  return useMutation({
    onSuccess,
    mutationFn: (id: string) => {
      const params = { path: { id } };
      if (verb === "cancel") return unwrap(api.POST("/api/v1/models/{id}/cancel", { params }));
      return unwrap(api.POST("/api/v1/models/{id}/retry", { params }));
    },
  });
}

export function useDeleteModel() {
  return useAct({
    seen: (model: Model) => [model.name, model.source, model.state],
    read: (id) => api.GET("/api/v1/models/{id}", { params: { path: { id } } }),
    write: (id, _: undefined, headers) =>
      api.DELETE("/api/v1/models/{id}", { params: { path: { id } }, headers }),
    refresh: ["models"],
  });
}
