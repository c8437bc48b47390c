import { type ReactNode, useDeferredValue, useEffect, useRef } from "react";
import { Loading } from "./Loaded";

/** Its children are drawn after the paint that shows what stands `instead`: a click is answered before much is drawn. */
export function Later({ instead, children }: { instead: ReactNode; children: ReactNode }) {
  const due = useDeferredValue(true, false);
  return due ? children : instead;
}

/** What is in a dialog, after the paint that opens it. The dialog looked for the field to begin with before it was there. */
export function LaterInDialog({ children }: { children: ReactNode }) {
  return (
    <Later instead={<Loading />}>
      <Begun>{children}</Begun>
    </Later>
  );
}

function Begun({ children }: { children: ReactNode }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    ref.current?.querySelector<HTMLElement>("[data-autofocus]")?.focus({ preventScroll: true });
  }, []);
  return <div ref={ref}>{children}</div>;
}
