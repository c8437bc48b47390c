import { useCallback, useRef } from "react";
import { api, unwrap } from "../api/client";

const RENEW_BEFORE_MS = 60_000;

interface Held {
  tenant: string;
  token: string;
  until: number;
}

/** A ten-minute key for /v1, held in memory only and renewed a minute before it ends. */
export function usePlaygroundToken(): (tenant: string, fresh?: boolean) => Promise<string> {
  const held = useRef<Held | null>(null);
  return useCallback(async (tenant: string, fresh = false) => {
    const now = held.current;
    if (!fresh && now?.tenant === tenant && now.until > Date.now()) return now.token;
    const made = await unwrap(api.POST("/api/v1/keys/playground", { body: { tenant } }));
    held.current = {
      tenant,
      token: made.token,
      until: new Date(made.expires_at).getTime() - RENEW_BEFORE_MS,
    };
    return made.token;
  }, []);
}
