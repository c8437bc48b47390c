import { type RefObject, startTransition, useEffect, useRef, useState } from "react";

/** Before it is scrolled to, so that it is there when it is. */
const AHEAD = "500px 0px";

/** Whether an element is near the screen: what is far away on a long page need not be drawn. */
export function useNear<T extends HTMLElement>(
  atFirst: boolean,
): { ref: RefObject<T | null>; near: boolean } {
  const ref = useRef<T>(null);
  const [near, setNear] = useState(atFirst || typeof IntersectionObserver === "undefined");
  useEffect(() => {
    if (!ref.current || typeof IntersectionObserver === "undefined") return;
    const observer = new IntersectionObserver(
      // An input goes first: this is only about to be seen
      (entries) => startTransition(() => setNear(entries.at(-1)?.isIntersecting ?? true)),
      { rootMargin: AHEAD },
    );
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return { ref, near };
}
