import { useMemo } from "react";
import { t } from "../i18n";
import { absolute } from "../lib/format";
import { type Resolved, resolveRange } from "../lib/timeRange";
import { useNow } from "./useNow";
import { useUrl } from "./useUrl";

const MINUTE_MS = 60_000;

export interface TimeRange extends Resolved {
  label: string;
  setSpan: (span: string) => void;
  setAbsolute: (from: string, to: string) => void;
}

/** The time that a page looks at, from `?range=` or `?from=&to=`. A relative one ends with the minute that runs. */
export function useTimeRange(fallback: string): TimeRange {
  const { values, set } = useUrl();
  const { range, from, to } = values;
  const minute = useNow(MINUTE_MS) + MINUTE_MS;
  return useMemo(() => {
    const resolved = resolveRange({ range, from, to }, fallback, minute);
    const { span } = resolved;
    return {
      ...resolved,
      label: span
        ? t.kit.range.last(t.kit.range.spans[span] ?? span)
        : `${absolute(resolved.from)} – ${absolute(resolved.to)}`,
      setSpan: (next) =>
        set({
          range: next === fallback ? undefined : next,
          from: undefined,
          to: undefined,
          cursor: undefined,
        }),
      setAbsolute: (start, end) => set({ range: undefined, from: start, to: end, cursor: undefined }),
    };
  }, [range, from, to, fallback, minute, set]);
}
