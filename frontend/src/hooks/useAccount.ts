import { useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import { useRefresh } from "./useRefresh";

/** Runs a change of one's own account and asks for `refresh` again. */
function useChange<Body, Answer>(change: (body: Body) => Promise<Answer>, refresh: string[]) {
  const onSuccess = useRefresh(refresh);
  return useMutation({ mutationFn: change, onSuccess });
}

export function useRename() {
  return useChange((name: string) => unwrap(api.PATCH("/api/v1/me", { body: { name } })), ["me"]);
}

export function useChangePassword() {
  return useChange(
    (body: { current: string; new: string }) => unwrap(api.POST("/api/v1/me/password", { body })),
    ["sessions"],
  );
}

export function useSessions() {
  return useQuery({ queryKey: ["sessions"], queryFn: () => unwrap(api.GET("/api/v1/me/sessions")) });
}

export function useEndSession() {
  return useChange(
    (id: string) => unwrap(api.DELETE("/api/v1/me/sessions/{id}", { params: { path: { id } } })),
    ["sessions"],
  );
}

export function useFactor() {
  return useQuery({ queryKey: ["factor"], queryFn: () => unwrap(api.GET("/api/v1/me/mfa")) });
}

export function useBeginFactor() {
  return useChange(() => unwrap(api.POST("/api/v1/me/mfa")), []);
}

export function useConfirmFactor() {
  return useChange(
    (code: string) => unwrap(api.POST("/api/v1/me/mfa/confirm", { body: { code } })),
    ["factor", "sessions"],
  );
}

export function useDisableFactor() {
  return useChange(
    (code: string) => unwrap(api.DELETE("/api/v1/me/mfa", { body: { code } as never })),
    ["factor"],
  );
}

export function useRenewCodes() {
  return useChange(
    (code: string) => unwrap(api.POST("/api/v1/me/mfa/recovery-codes", { body: { code } })),
    ["factor"],
  );
}
