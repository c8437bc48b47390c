import { useQuery } from "@tanstack/react-query";
import { api, collect, unwrap } from "../api/client";

export function useClasses() {
  return useQuery({
    queryKey: ["classes"],
    staleTime: 300_000,
    queryFn: () => collect((cursor) => unwrap(api.GET("/api/v1/classes", { params: { query: { cursor } } }))),
  });
}
