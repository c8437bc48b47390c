/** Spans of time that a page looks at: `24h`, or from one time to another. */

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The length of `15m`, `24h`, `7d` in ms; undefined for anything else. */
export function spanMs(span: string | undefined): number | undefined {
  const match = /^(\d{1,4})([mhd])$/.exec(span ?? "");
  const unit = UNIT_MS[match?.[2] ?? ""];
  return match && unit ? Number(match[1]) * unit : undefined;
}

const valid = (time: string | undefined): time is string =>
  time !== undefined && !Number.isNaN(Date.parse(time));

export interface Resolved {
  from: string;
  to: string;
  /** The relative span that it came from. */
  span: string | undefined;
}

/** ISO times of what the URL asks; what it says badly is the fallback span. `nowMs` is the end of a relative one. */
export function resolveRange(
  asked: { range?: string; from?: string; to?: string },
  fallback: string,
  nowMs: number,
): Resolved {
  if (valid(asked.from) && valid(asked.to) && Date.parse(asked.from) < Date.parse(asked.to)) {
    const { from, to } = asked;
    return { from: new Date(from).toISOString(), to: new Date(to).toISOString(), span: undefined };
  }
  const span = spanMs(asked.range) ? asked.range : fallback;
  const length = spanMs(span) ?? 0;
  return { from: new Date(nowMs - length).toISOString(), to: new Date(nowMs).toISOString(), span };
}

/** What an `<input type="datetime-local">` holds for a time, in the browser's zone. */
export function localInput(iso: string): string {
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
