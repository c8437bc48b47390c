import { useMemo } from "react";
import { useGoodput } from "../../hooks/useGoodput";
import { byClass, pickDeployment, pickTotal, summarise } from "../../live/figures";
import { useLive } from "../../live/LiveProvider";
import type { Figures } from "../../live/types";

export type Range = "5m" | "1h" | "24h";
export const RANGES: Range[] = ["5m", "1h", "24h"];
const MINUTES: Record<Range, number> = { "5m": 5, "1h": 60, "24h": 1440 };

export interface FigureSet {
  /** x in unix seconds, ascending. */
  at: number[];
  rows: Figures[];
  total: Figures;
  classes: [string, Figures][];
  span: [number, number];
  /** How many seconds each row stands for. */
  seconds: number[];
  /** Nothing has come yet, so nothing is known: the zeros of `total` mean nothing. */
  loading: boolean;
  error: Error | null;
  retry: (() => void) | undefined;
}

export function toRange(text: string | undefined): Range {
  return RANGES.find((r) => r === text) ?? "5m";
}

/** One shape for both sources: live seconds over the websocket, or minutes over REST. */
export function useFigures(
  range: Range,
  tenant: string | undefined,
  deployment: string | undefined,
): FigureSet {
  const { windows } = useLive();
  const live = range === "5m";
  const past = useGoodput(tenant, deployment, MINUTES[range], !live);

  return useMemo(() => {
    if (live) {
      const pick = deployment ? pickDeployment(deployment) : pickTotal;
      const rows = windows.map(pick);
      const end = windows.at(-1)?.at ?? Math.floor(Date.now() / 1000);
      return {
        at: windows.map((w) => w.at),
        rows,
        total: summarise(rows),
        classes: byClass(windows),
        span: [end - 300, end],
        seconds: windows.map((w) => w.seconds),
        loading: windows.length === 0,
        error: null,
        retry: undefined,
      };
    }
    const series = past.data?.minutes ?? [];
    const end = Math.floor(Date.now() / 1000);
    return {
      at: series.map((m) => Date.parse(m.minute) / 1000),
      rows: series,
      total: past.data?.total ?? summarise([]),
      classes: Object.entries(past.data?.classes ?? {}),
      span: [end - MINUTES[range] * 60, end],
      seconds: series.map(() => 60),
      loading: past.isPending,
      error: past.error,
      retry: () => void past.refetch(),
    };
  }, [live, range, deployment, windows, past.data, past.isPending, past.error, past.refetch]);
}
