import type { Figures } from "../api/types";

/** Messages of /ws/console (docs/contracts.md). REST types come from the schema; a websocket has none. */

/** One cell of one window, in the shape that REST gives minutes and totals too. */
export type { Figures };

export interface LiveReplica {
  id: string;
  deployment_id: string;
  deployment: string;
  state: string;
  running: number | null;
  queued: number | null;
  kv_free: number | null;
}

export interface LiveWindow {
  type: "window";
  scope: string;
  at: number;
  seconds: number;
  total: Figures;
  classes: Record<string, Figures>;
  deployments: Record<string, Figures>;
  devices: { in_use: number; total: number };
  replicas: LiveReplica[];
}

export type Changed = "replica" | "deployment" | "model" | "key" | "node";

export type ServerMessage =
  | LiveWindow
  | { type: "history"; windows: LiveWindow[] }
  | { type: "changed"; what: Changed; id: string };

export type LiveStatus = "connecting" | "live" | "stale" | "reconnecting" | "denied" | "signed_out";
