import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";

/** The open contracts of one tenant: on its own deployments and on others'. */
export function useContracts(tenant: string | undefined) {
  return useQuery({
    queryKey: ["contracts", tenant ?? null],
    enabled: tenant !== undefined,
    queryFn: () =>
      collect((cursor) =>
        unwrap(api.GET("/api/v1/contracts", { params: { query: { tenant, open: true, cursor } } })),
      ),
  });
}
