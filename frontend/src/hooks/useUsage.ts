import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { UsageGroup } from "../api/types";

export interface UsageCells {
  tenant?: string;
  member?: string;
  key?: string;
  deployment?: string;
  class?: string;
  from: string;
  to: string;
}

/** Sums by one group or two. Records are booked within seconds, so it is asked for again now and then. */
export function useUsage(cells: UsageCells, group: UsageGroup[]) {
  return useQuery({
    queryKey: ["usage", cells, group],
    refetchInterval: 15_000,
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/usage/summary", { params: { query: { ...cells, group } } })),
  });
}

/** Where the same sums come as CSV; without groups a line a request. */
export function exportUrl(cells: UsageCells, group: UsageGroup[]): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(cells)) if (value) query.set(name, value);
  for (const one of group) query.append("group", one);
  return `/api/v1/usage/export.csv?${query}`;
}

/** What to charge for a month, as CSV, by key; of the same tenant, deployment and so on, not of the same time. */
export function chargebackUrl({ from, to, ...cells }: UsageCells, month: string): string {
  const query = new URLSearchParams({ month, by: "key" });
  for (const [name, value] of Object.entries(cells)) if (value) query.set(name, value);
  return `/api/v1/usage/chargeback.csv?${query}`;
}
