import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap, WHOLE } from "../api/client";

/** Every tenant the person may see; for an operator, all. */
export function useTenants(enabled: boolean) {
  return useQuery({
    queryKey: ["tenants"],
    enabled,
    staleTime: 60_000,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/tenants", { params: { query: { cursor, page_size: WHOLE } } })),
      ),
  });
}
