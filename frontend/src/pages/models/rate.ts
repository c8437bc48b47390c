/** How fast something advances, from what was seen of it in the last seconds. */

export interface Sample {
  atMs: number;
  bytes: number;
}

const WINDOW_MS = 8_000;

/** `seen` with a sample more; what fell out of the window goes, and a count that went back starts anew. */
export function addSample(seen: Sample[], sample: Sample): Sample[] {
  const last = seen.at(-1);
  if (last && sample.bytes < last.bytes) return [sample];
  if (last && sample.atMs <= last.atMs) return seen;
  return [...seen.filter((one) => sample.atMs - one.atMs <= WINDOW_MS), sample];
}

/** Bytes a second over the samples; null while there is too little to say. */
export function rateOf(seen: Sample[]): number | null {
  const first = seen[0];
  const last = seen.at(-1);
  if (!first || !last || last.atMs - first.atMs < 500) return null;
  return ((last.bytes - first.bytes) * 1000) / (last.atMs - first.atMs);
}

/** Seconds until the rest is done at this rate; null where that is not known. */
export function secondsLeft(rate: number | null, bytesDone: number, bytesTotal: number): number | null {
  if (!rate || rate <= 0 || bytesTotal <= bytesDone) return null;
  return (bytesTotal - bytesDone) / rate;
}
