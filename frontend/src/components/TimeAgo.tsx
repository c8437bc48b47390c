import { Tooltip } from "@mantine/core";
import { useNow } from "../hooks/useNow";
import { absolute, ago, NONE } from "../lib/format";

/** Relative for reading, absolute on demand. */
export function TimeAgo({ at, none = NONE }: { at: string | null | undefined; none?: string }) {
  useNow(30_000);
  if (!at) return <span className="muted">{none}</span>;
  return (
    <Tooltip label={absolute(at)}>
      <time dateTime={at} className="num">
        {ago(at)}
      </time>
    </Tooltip>
  );
}
