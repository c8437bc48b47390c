import { useEffect, useState } from "react";

/** Now in ms, counted in whole steps: it changes once a step, so that what is made from it does not change oftener. */
export function useNow(stepMs: number): number {
  const [now, setNow] = useState(() => Math.floor(Date.now() / stepMs) * stepMs);
  useEffect(() => {
    const timer = setInterval(
      () => setNow(Math.floor(Date.now() / stepMs) * stepMs),
      Math.min(stepMs, 15_000),
    );
    return () => clearInterval(timer);
  }, [stepMs]);
  return now;
}
