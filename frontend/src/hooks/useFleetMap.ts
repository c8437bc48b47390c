import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";

/** Agents report every 5 s; that is how old the picture may be beside what the socket tells. */
const REPORT_MS = 5_000;
/** The picture of a large fleet is megabytes: it is asked for less often. What happens is told at once either way. */
const LARGE = 200;
const LARGE_MS = 20_000;

/** Every device to scale with who sits there and why, of one node or of all. Operators only. */
export function useFleetMap(node?: string, enabled = true) {
  return useQuery({
    queryKey: ["fleet", "map", node ?? null],
    enabled,
    refetchInterval: (query) => ((query.state.data?.gpus.length ?? 0) > LARGE ? LARGE_MS : REPORT_MS),
    queryFn: () => unwrap(api.GET("/api/v1/fleet/map", { params: { query: { node } } })),
  });
}
