import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { Me } from "../api/types";

/** Who is signed in, or null. The session call also sets the CSRF cookie. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  staleTime: 60_000,
  queryFn: async (): Promise<Me | null> => {
    const session = await unwrap(api.GET("/api/v1/session"));
    return session.user ? await unwrap(api.GET("/api/v1/me")) : null;
  },
});

export function useMe() {
  return useQuery(meQuery);
}

export function useSignIn() {
  return useMutation({
    mutationFn: (body: { email: string; password: string; code: string }) =>
      unwrap(api.POST("/api/v1/session", { body })),
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/session")),
    onSuccess: () => queries.clear(),
  });
}
