import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";

/** The last day's records against the doors' counts; only operators may ask. */
export function useReconciliation(enabled: boolean) {
  return useQuery({
    queryKey: ["reconciliation"],
    enabled,
    refetchInterval: 60_000,
    queryFn: () => unwrap(api.GET("/api/v1/usage/reconciliation")),
  });
}
