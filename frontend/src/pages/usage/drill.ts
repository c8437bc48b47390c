import type { UsageGroup, UsageRow } from "../../api/types";
import type { TextSearch } from "../../lib/search";

/** What a group is looked at by once one of its rows is chosen; null: its requests, one by one. */
const NEXT: Record<UsageGroup, UsageGroup | null> = {
  tenant: "deployment",
  deployment: "key",
  class: "deployment",
  member: "key",
  key: "day",
  day: "hour",
  hour: null,
};
const SPAN_MS = { day: 86_400_000, hour: 3_600_000 };

/** The search parameters one step deeper into a row: its filter, or its time, and the next grouping. */
export function deeper(group: UsageGroup, row: Pick<UsageRow, "key">): TextSearch {
  const by = NEXT[group] ?? undefined;
  if (group === "day" || group === "hour") {
    const from = Date.parse(row.key);
    const to = new Date(from + SPAN_MS[group]).toISOString();
    return { by, from: new Date(from).toISOString(), to, range: undefined };
  }
  return { by, [group]: row.key };
}

export function isDeepest(group: UsageGroup): boolean {
  return NEXT[group] === null;
}
