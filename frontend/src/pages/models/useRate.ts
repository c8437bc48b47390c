import { useEffect, useState } from "react";
import { addSample, rateOf, type Sample } from "./rate";

/** Bytes a second of a count that is read again and again; null while it is not known. */
export function useRate(bytes: number | null): number | null {
  const [seen, setSeen] = useState<Sample[]>([]);
  useEffect(() => {
    if (bytes !== null) setSeen((before) => addSample(before, { atMs: Date.now(), bytes }));
  }, [bytes]);
  return rateOf(seen);
}
