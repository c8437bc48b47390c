import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { AcceptInvitation, Invitation, MemberCreate } from "../api/types";
import { useAct } from "./useAct";
import { useCreate } from "./useCreate";

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

const PARAMS = (id: string) => ({ path: { id } });
const invitation = {
  seen: (one: Invitation) => [one.role, one.expires_at],
  read: (id: string) => api.GET("/api/v1/invitations/{id}", { params: PARAMS(id) }),
  refresh: ["invitations"],
};

/** Answers the new link, which is told once. */
export function useResendInvitation() {
  return useAct({
    ...invitation,
    write: (id, _: undefined, headers) =>
      api.POST("/api/v1/invitations/{id}/resend", { params: PARAMS(id), headers }),
  });
}

export function useRevokeInvitation() {
  return useAct({
    ...invitation,
    write: (id, _: undefined, headers) =>
      api.DELETE("/api/v1/invitations/{id}", { params: PARAMS(id), headers }),
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
