import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";

/** Every key of a tenant, or of all, for a filter to choose from. */
export function useKeyNames(tenant: string | undefined) {
  return useQuery({
    queryKey: ["keys", "names", tenant ?? null],
    staleTime: 60_000,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/keys", { params: { query: { tenant, cursor, page_size: 100 } } })),
      ),
  });
}
