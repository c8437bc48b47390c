import { useNow } from "../hooks/useNow";
import { useTip } from "../hooks/useTip";
import { absolute, ago, NONE } from "../lib/format";

/** Relative for reading, absolute on demand. */
export function TimeAgo({ at, none = NONE }: { at: string | null | undefined; none?: string }) {
  useNow(30_000);
  const { target, tip } = useTip<HTMLTimeElement>(() => absolute(at));
  if (!at) return <span className="muted">{none}</span>;
  return (
    <>
      <time dateTime={at} className="num" {...target}>
        {ago(at)}
      </time>
      {tip}
    </>
  );
}
