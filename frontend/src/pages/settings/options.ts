import type { Setting } from "../../api/types";
import { say, t } from "../../i18n";
import { decimal, percent } from "../../lib/format";

/** A share of a whole: read and entered in percent, kept as 0 to 1. */
const SHARE = "of 1";

/** What an option is for, in the language in use; the server's own words where it has no translation. */
export function describe(setting: Setting): string {
  return say(setting.description);
}

/** A value as it is read: with its unit, a switch as a word. */
export function shown(setting: Setting, value: unknown): string {
  if (typeof value === "boolean") return value ? t.settings.option.on : t.settings.option.off;
  if (typeof value !== "number") return String(value);
  return setting.unit === SHARE ? percent(value) : `${decimal(value)}${suffixOf(setting)}`;
}

/** What follows the number. */
export function suffixOf({ unit }: Setting): string {
  if (unit === SHARE) return " %";
  return unit ? ` ${t.settings.units[unit] ?? unit}` : "";
}

/** The value as it stands in the field; `null` where it is empty. */
export function toField({ unit }: Setting, value: number | null): number | null {
  // 0.57 * 100 is a little less than 57
  return value !== null && unit === SHARE ? Number((value * 100).toPrecision(12)) : value;
}

export function fromField({ unit }: Setting, entered: number): number {
  return unit === SHARE ? Number((entered / 100).toPrecision(12)) : entered;
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
