import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { LiveSocket, type LiveState } from "./socket";
import type { Changed } from "./types";

const Context = createContext<LiveSocket | null>(null);

/**
 * Which queries a change makes old. Replicas move deployments' state, so both are read again; a role or a tenant
 * changes what one may see and do oneself.
 */
const QUERIES: Record<Changed, string[]> = {
  replica: ["replicas", "deployments", "fleet"],
  deployment: ["deployments", "replicas", "contracts"],
  model: ["models"],
  key: ["keys"],
  node: ["nodes", "gpus", "fit", "fleet"],
  decision: ["decisions", "events"],
  plan: ["plans"],
  member: ["members", "me"],
  invitation: ["invitations"],
  tenant: ["tenants", "me"],
};

export function LiveProvider({ scope, children }: { scope: string; children: ReactNode }) {
  const queries = useQueryClient();
  const [socket] = useState(() => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    return new LiveSocket(`${scheme}://${location.host}/ws/console`, (what) => {
      for (const key of QUERIES[what as Changed] ?? []) void queries.invalidateQueries({ queryKey: [key] });
    });
  });

  useEffect(() => socket.follow(scope), [socket, scope]);
  // The socket lives as long as the signed-in shell; a new scope is followed, not reconnected.
  useEffect(() => () => socket.close(), [socket]);

  return <Context value={socket}>{children}</Context>;
}

export function useLive(): LiveState {
  const socket = useContext(Context);
  if (!socket) throw new Error("useLive outside LiveProvider");
  return useSyncExternalStore(socket.subscribe, socket.snapshot);
}
