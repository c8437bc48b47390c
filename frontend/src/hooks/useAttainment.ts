import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { AttainmentGroup, ViolationGroup } from "../api/types";

const FRESH_MS = 15_000;

/** Which requests are looked at: those that ended in the span, of whatever is named. */
export interface Looked {
  tenant?: string;
  deployment?: string;
  class?: string;
  from: string;
  to: string;
}

export function useAttainment(query: Looked & { group: AttainmentGroup }) {
  return useQuery({
    queryKey: ["attainment", query],
    refetchInterval: FRESH_MS,
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/slas/attainment", { params: { query } })),
  });
}

export function useViolations(query: Looked & { group: ViolationGroup }) {
  return useQuery({
    queryKey: ["violations", query],
    refetchInterval: FRESH_MS,
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/slas/violations", { params: { query } })),
  });
}
