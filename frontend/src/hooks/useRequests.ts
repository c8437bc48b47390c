import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import { ApiError } from "../api/errors";
import type { paths } from "../api/schema";

export type RequestQuery = NonNullable<paths["/api/v1/requests"]["get"]["parameters"]["query"]>;

/** A page of requests. The newest first page is asked for again by itself, an older one does not change. */
export function useRequests(query: RequestQuery) {
  return useQuery({
    queryKey: ["requests", query],
    refetchInterval: query.cursor ? false : 5_000,
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/requests", { params: { query } })),
  });
}

const BOOKED_WITHIN = 8;

/** One request explained. It is booked some seconds after it ended: until then it is asked for again. */
export function useRequest(id: string) {
  return useQuery({
    queryKey: ["requests", "one", id],
    staleTime: 60_000,
    retry: (failures, error) =>
      error instanceof ApiError && error.status < 500
        ? error.status === 404 && failures < BOOKED_WITHIN
        : failures < 2,
    retryDelay: 1500,
    queryFn: () => unwrap(api.GET("/api/v1/requests/{request_id}", { params: { path: { request_id: id } } })),
  });
}
