import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { paths } from "../api/schema";

type Query = paths["/api/v1/decisions"]["get"]["parameters"]["query"];

/** One page of what the scheduler decided, newest first. */
export function useDecisions(query: Query) {
  return useQuery({
    queryKey: ["decisions", "page", query],
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
    queryFn: () => unwrap(api.GET("/api/v1/decisions", { params: { query } })),
  });
}

export function useDecision(id: string | undefined) {
  return useQuery({
    queryKey: ["decisions", "one", id],
    enabled: id !== undefined,
    queryFn: () => unwrap(api.GET("/api/v1/decisions/{id}", { params: { path: { id: id ?? "" } } })),
  });
}
