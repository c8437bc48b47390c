/** Seconds until the rest is done at this rate; null where that is not known. */
export function secondsLeft(rate: number | null, bytesDone: number, bytesTotal: number): number | null {
  if (!rate || rate <= 0 || bytesTotal <= bytesDone) return null;
  return (bytesTotal - bytesDone) / rate;
}
