import { t } from "../i18n";

/** Numbers and times as people read them, in their language: a value that is not known is an en dash, never a zero. */

export const NONE = "–";

const grouped = new Intl.NumberFormat(t.locale, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(t.locale, { notation: "compact", maximumFractionDigits: 1 });

type Maybe = number | null | undefined;

const known = (value: Maybe): value is number =>
  value !== null && value !== undefined && Number.isFinite(value);

export function integer(value: Maybe): string {
  if (!known(value)) return NONE;
  return Math.abs(value) < 100_000 ? grouped.format(value) : compact.format(value);
}

/** Without zeros that say nothing: 6.00 is 6, 1.50 is 1.5. */
function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Three significant digits at most, for rates and ratios. */
export function decimal(value: Maybe): string {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 100) return integer(value);
  return trim(value.toFixed(size >= 10 ? 1 : 2));
}

export function percent(value: Maybe): string {
  if (!known(value)) return NONE;
  const scaled = value * 100;
  // 99.96 % must not read as 100 %: only a perfect ratio does.
  if (value < 1 && scaled > 99.9) return "99.9 %";
  return `${trim(scaled.toFixed(1))} %`;
}

export function milliseconds(value: Maybe): string {
  if (!known(value)) return NONE;
  if (value >= 5_400_000) return `${trim((value / 3_600_000).toFixed(1))} h`;
  if (value >= 90_000) return `${trim((value / 60_000).toFixed(1))} min`;
  if (value >= 1000) return `${trim((value / 1000).toFixed(2))} s`;
  return `${value >= 100 ? value.toFixed(0) : trim(value.toFixed(1))} ms`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value: Maybe): string {
  if (!known(value)) return NONE;
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? size.toFixed(0) : trim(size.toFixed(1))} ${UNITS[unit]}`;
}

const relative = new Intl.RelativeTimeFormat(t.locale, { numeric: "auto", style: "short" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** What is past counts by what has passed; what is to come by the nearest: a term of 30 days begins as 30, not as 29. */
export function ago(iso: string | null | undefined, nowMs: number = Date.now()): string {
  if (!iso) return NONE;
  const seconds = (new Date(iso).getTime() - nowMs) / 1000;
  const whole = seconds > 0 ? Math.round : Math.trunc;
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return relative.format(whole(seconds / size), unit);
  }
  return relative.format(whole(seconds), "second");
}

/** English dates are written day first, hours to 24, as logs are. */
const dates = t.locale === "en" ? "en-GB" : t.locale;

const moments = new Intl.DateTimeFormat(dates, { dateStyle: "medium", timeStyle: "medium" });

export function absolute(iso: string | null | undefined): string {
  return iso ? moments.format(new Date(iso)) : NONE;
}

const dated = new Intl.DateTimeFormat(t.locale, { month: "short", day: "numeric" });

/** The day of a moment, in the browser's zone. */
export function day(unixSeconds: number): string {
  return dated.format(new Date(unixSeconds * 1000));
}

const clocks = new Intl.DateTimeFormat(dates, { timeStyle: "medium" });

export function clock(unixSeconds: number): string {
  return clocks.format(new Date(unixSeconds * 1000));
}
