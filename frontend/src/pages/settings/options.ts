import type { Setting } from "../../api/types";
import { say, t } from "../../i18n";
import { decimal } from "../../lib/format";

/** What an option is for, in the language in use; the server's own words where it has no translation. */
export function describe(setting: Setting): string {
  return say(setting.description);
}

/** A value as it is read: with its unit, a switch as a word. */
export function shown(setting: Setting, value: unknown): string {
  if (typeof value === "boolean") return value ? t.settings.option.on : t.settings.option.off;
  const text = typeof value === "number" ? decimal(value) : String(value);
  const unit = t.settings.units[setting.unit] ?? setting.unit;
  return unit && setting.unit !== "of 1" ? `${text} ${unit}` : text;
}

/** What may be entered, where that is bounded. */
export function rangeOf(setting: Setting): string | undefined {
  const { low, high } = setting;
  if (low === null || high === null || setting.kind === "choice") return undefined;
  const words = t.settings.option;
  return setting.kind === "text"
    ? words.characters(decimal(low), decimal(high))
    : words.range(shown(setting, low), shown(setting, high));
}

/** Options under their group, in the server's order. */
export function byGroup(settings: Setting[]): [string, Setting[]][] {
  const groups = new Map<string, Setting[]>();
  for (const one of settings) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
  return [...groups];
}
