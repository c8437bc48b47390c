import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";

/** Minute rows of the past; the last five minutes come live over the websocket instead. */
export function useGoodput(
  tenant: string | undefined,
  deployment: string | undefined,
  minutes: number,
  enabled: boolean,
) {
  return useQuery({
    queryKey: ["goodput", tenant ?? null, deployment ?? null, minutes],
    enabled,
    refetchInterval: 30_000,
    queryFn: () => unwrap(api.GET("/api/v1/goodput", { params: { query: { tenant, deployment, minutes } } })),
  });
}
