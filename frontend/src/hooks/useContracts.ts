import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";

/** The open contracts of one tenant, on its own deployments and on others'; `everyones`: without a tenant, all. */
export function useContracts(tenant: string | undefined, everyones = false) {
  return useQuery({
    queryKey: ["contracts", tenant ?? null],
    enabled: tenant !== undefined || everyones,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/contracts", { params: { query: { tenant, open: true, cursor } } })),
      ),
  });
}
