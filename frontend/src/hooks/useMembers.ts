import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import type { Member, Role } from "../api/types";
import { useAct } from "./useAct";
import type { ListQuery } from "./useList";

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

const PARAMS = (id: string) => ({ path: { id } });
const member = {
  seen: (m: Member) => m.role,
  read: (id: string) => api.GET("/api/v1/members/{id}", { params: PARAMS(id) }),
  refresh: ["members", "me"],
};

export function useChangeRole() {
  return useAct({
    ...member,
    write: (id, role: Role, headers) =>
      api.PATCH("/api/v1/members/{id}", { params: PARAMS(id), headers, body: { role } }),
  });
}

export function useRemoveMember() {
  return useAct({
    ...member,
    write: (id, _: undefined, headers) => api.DELETE("/api/v1/members/{id}", { params: PARAMS(id), headers }),
  });
}
