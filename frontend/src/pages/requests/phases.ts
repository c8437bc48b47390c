import type { ExplainedRequest } from "../../api/types";

export interface Bar {
  phase: string;
  startMs: number;
  endMs: number;
  /** From 0 to 1, of the whole picture. */
  left: number;
  width: number;
}

export interface Mark {
  kind: "ttft" | "e2e";
  ms: number;
  left: number;
}

export interface Picture {
  bars: Bar[];
  marks: Mark[];
  endMs: number;
  ticks: { ms: number; left: number }[];
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  return ([1, 2, 5, 10].find((n) => n * power >= least) ?? 10) * power;
}

const TICKS = 6;

/**
 * The phases as bars of one length of time, with the promised moments. It reaches beyond the end where a promise lies
 * later, but not far: a batch may be promised within a day.
 */
export function pictureOf(request: Pick<ExplainedRequest, "timeline" | "record">): Picture {
  const { timeline, record } = request;
  const last = Math.max(0, ...timeline.map((phase) => phase.end_ms));
  const promised: Omit<Mark, "left">[] = [];
  if (record.ttft_limit_us !== null) promised.push({ kind: "ttft", ms: record.ttft_limit_us / 1000 });
  if (record.e2e_limit_us !== null) promised.push({ kind: "e2e", ms: record.e2e_limit_us / 1000 });
  const reach = Math.max(last * 1.04, 0.1);
  const near = promised.filter((one) => one.ms <= Math.max(last * 3, 1));
  const endMs = Math.max(reach, ...near.map((one) => one.ms * 1.06));
  const at = (ms: number) => Math.min(1, ms / endMs);
  const step = roundStep(endMs / TICKS);
  return {
    endMs,
    bars: timeline.map((phase) => ({
      phase: phase.phase,
      startMs: phase.start_ms,
      endMs: phase.end_ms,
      left: at(phase.start_ms),
      width: at(phase.end_ms) - at(phase.start_ms),
    })),
    marks: near.map((one) => ({ ...one, left: at(one.ms) })),
    ticks: Array.from({ length: Math.floor(endMs / step) + 1 }, (_, i) => ({
      ms: i * step,
      left: at(i * step),
    })),
  };
}
