/** Counts by bucket of one latency, sparse and ascending: gpuruntime/goodput.py's Histogram on the wire. */
export type Histogram = [bucket: number, count: number][];

/** Bucket b > 0 holds values from 1.02^(b−1) to 1.02^b; bucket 0 those below 1. */
const LOG_STEP = Math.log(1.02);

/** Histograms are added, and percentiles read from the sum; percentiles themselves are never averaged. */
export function merge(histograms: (Histogram | undefined)[]): Histogram {
  const counts = new Map<number, number>();
  for (const histogram of histograms) {
    for (const [bucket, count] of histogram ?? []) counts.set(bucket, (counts.get(bucket) ?? 0) + count);
  }
  return [...counts].sort((a, b) => a[0] - b[0]);
}

/** The value at rank ceil(q · n), as its bucket's geometric middle (within 1 %); null when empty. */
export function percentile(histogram: Histogram, q: number): number | null {
  const total = histogram.reduce((sum, [, count]) => sum + count, 0);
  const rank = Math.max(1, Math.ceil(q * total));
  let seen = 0;
  for (const [bucket, count] of histogram) {
    seen += count;
    if (seen >= rank) return bucket === 0 ? 0 : Math.exp((bucket - 0.5) * LOG_STEP);
  }
  return null;
}
