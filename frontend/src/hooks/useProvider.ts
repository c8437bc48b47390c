import { useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import { confirmCode, startAtProvider } from "../api/oidc";

/** How one may sign in here. */
export function useSignInWays() {
  return useQuery({
    queryKey: ["sign-in-ways"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => (await unwrap(api.GET("/api/v1/session"))).sign_in,
  });
}

/** Leaves the console for the provider. */
export function useStartAtProvider() {
  return useMutation({
    mutationFn: startAtProvider,
    onSuccess: ({ url }) => location.assign(url),
  });
}

export function useConfirmCode() {
  return useMutation({ mutationFn: confirmCode });
}
