import { Tooltip } from "@mantine/core";
import { absolute, ago, NONE } from "../lib/format";

/** Relative for reading, absolute on demand. */
export function TimeAgo({ at, none = NONE }: { at: string | null | undefined; none?: string }) {
  if (!at) return <span className="muted">{none}</span>;
  return (
    <Tooltip label={absolute(at)}>
      <time dateTime={at} className="num">
        {ago(at)}
      </time>
    </Tooltip>
  );
}
