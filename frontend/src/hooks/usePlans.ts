import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { paths } from "../api/schema";

type Query = paths["/api/v1/plans"]["get"]["parameters"]["query"];

/** Moves take a minute or so each: a wave that ended shows soon. */
const RUNNING_MS = 5_000;

/** One page of how the fleet was packed anew, newest first. Operators only. */
export function usePlans(query: Query, enabled = true) {
  return useQuery({
    queryKey: ["plans", "page", query],
    enabled,
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
    queryFn: () => unwrap(api.GET("/api/v1/plans", { params: { query } })),
  });
}

export function usePlan(id: string | undefined) {
  return useQuery({
    queryKey: ["plans", "one", id],
    enabled: id !== undefined,
    refetchInterval: (query) => (query.state.data?.state === "running" ? RUNNING_MS : 30_000),
    queryFn: () => unwrap(api.GET("/api/v1/plans/{id}", { params: { path: { id: id ?? "" } } })),
  });
}
