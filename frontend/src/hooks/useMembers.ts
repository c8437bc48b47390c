import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap, unwrapTagged } from "../api/client";
import type { Member, Role } from "../api/types";
import { t } from "../i18n";
import type { ListQuery } from "./useList";
import { useRefresh } from "./useRefresh";

interface MemberQuery extends ListQuery {
  role?: string;
}

export function useMembers(tenant: string | undefined, query: MemberQuery) {
  return useQuery({
    queryKey: ["members", tenant ?? null, query],
    placeholderData: keepPreviousData,
    queryFn: () =>
      unwrap(
        api.GET("/api/v1/members", {
          params: { query: { tenant, ...query, role: query.role ? [query.role as Role] : undefined } },
        }),
      ),
  });
}

/** Gives a role only to who still has the one that was on the screen. */
export function useChangeRole() {
  const onSettled = useRefresh(["members"]);
  return useMutation({
    mutationFn: async ({ member, role }: { member: Member; role: Role }) => {
      const params = { path: { id: member.id } };
      const now = await unwrapTagged(api.GET("/api/v1/members/{id}", { params }));
      if (now.value.role !== member.role) throw new Error(t.members.stale);
      const headers = now.etag ? { "If-Match": now.etag } : {};
      return unwrap(api.PATCH("/api/v1/members/{id}", { params, headers, body: { role } }));
    },
    onSettled,
  });
}

export function useRemoveMember() {
  const onSuccess = useRefresh(["members", "me"]);
  return useMutation({
    mutationFn: (id: string) => unwrap(api.DELETE("/api/v1/members/{id}", { params: { path: { id } } })),
    onSuccess,
  });
}
