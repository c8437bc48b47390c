import type { Key } from "../../api/types";

export function keyState(key: Key, nowMs: number = Date.now()): "active" | "revoked" | "expired" {
  if (key.revoked_at) return "revoked";
  return key.expires_at && new Date(key.expires_at).getTime() <= nowMs ? "expired" : "active";
}
