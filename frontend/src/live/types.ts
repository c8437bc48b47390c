import type { Figures } from "../api/types";
import type { Histogram } from "./histogram";

/** Messages of /ws/console (docs/contracts.md). REST types come from the schema; a websocket has none. */

/** One cell of one window, in the shape that REST gives minutes and totals too. */
export type { Figures };

/** What the factors are made from; device-seconds add up over windows, the factors do not. */
export interface DeviceSeconds {
  good_ideal_s: number;
  delivered_ideal_s: number;
  executed_ideal_s: number;
  busy_s: number;
  provisioned_s: number;
}

/** A live cell also carries what figures of a longer time are made from. Absent means nothing happened. */
export interface LiveFigures extends Figures, Partial<DeviceSeconds> {
  histograms?: { ttft?: Histogram; tpot?: Histogram; fluidity?: Histogram };
}

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
  total: LiveFigures;
  classes: Record<string, LiveFigures>;
  deployments: Record<string, LiveFigures>;
  devices: { in_use: number; total: number };
  replicas: LiveReplica[];
}

export type Changed =
  | "replica"
  | "deployment"
  | "model"
  | "key"
  | "node"
  | "decision"
  | "plan"
  | "member"
  | "invitation"
  | "tenant";

export type ServerMessage =
  | LiveWindow
  | { type: "history"; windows: LiveWindow[] }
  | { type: "changed"; what: Changed; id: string };

export type LiveStatus = "connecting" | "live" | "stale" | "reconnecting" | "denied" | "signed_out";
