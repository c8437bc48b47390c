import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { AcceptInvitation, MemberCreate } from "../api/types";
import { useCreate } from "./useCreate";
import { useRefresh } from "./useRefresh";

/** Those that wait for an answer, and those that ran out. */
export function useInvitations(tenant: string | undefined, enabled: boolean) {
  return useQuery({
    queryKey: ["invitations", tenant ?? null],
    enabled,
    placeholderData: keepPreviousData,
    queryFn: () => unwrap(api.GET("/api/v1/invitations", { params: { query: { tenant, page_size: 100 } } })),
  });
}

/** Answers the link, which is told once. */
export function useInvite() {
  return useCreate(
    (body: MemberCreate, headers) => api.POST("/api/v1/invitations", { body, headers }),
    ["invitations"],
  );
}

export function useResendInvitation() {
  const onSuccess = useRefresh(["invitations"]);
  return useMutation({
    mutationFn: (id: string) =>
      unwrap(api.POST("/api/v1/invitations/{id}/resend", { params: { path: { id } } })),
    onSuccess,
  });
}

export function useRevokeInvitation() {
  const onSuccess = useRefresh(["invitations"]);
  return useMutation({
    mutationFn: (id: string) => unwrap(api.DELETE("/api/v1/invitations/{id}", { params: { path: { id } } })),
    onSuccess,
  });
}

/** What a link offers, for whom it was sent to; no session is needed, but the CSRF cookie is. */
export function useLookInvitation(token: string) {
  return useQuery({
    queryKey: ["invitation", token],
    enabled: token !== "",
    retry: false,
    queryFn: async () => {
      await unwrap(api.GET("/api/v1/session"));
      return unwrap(api.POST("/api/v1/invitations/look", { body: { token } }));
    },
  });
}

export function useAcceptInvitation() {
  return useMutation({
    mutationFn: (body: AcceptInvitation) => unwrap(api.POST("/api/v1/invitations/accept", { body })),
  });
}
