/** How a language says each of the server's clauses (`platform/berth/metering/explain.py`) from its facts. */
export type ClauseFacts = Record<string, number | string | null | undefined>;
export type Clauses = Record<string, (facts: ClauseFacts) => string>;

const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** 812 ms, 1.5 s, 12 min: as the server writes times. */
export function time(value: ClauseFacts[string]): string {
  if (typeof value !== "number") return "–";
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${value.toFixed(0)} ms`;
  return value < 60_000 ? `${number.format(value / 1000)} s` : `${number.format(value / 60_000)} min`;
}

export function share(value: ClauseFacts[string]): string {
  return typeof value === "number" ? `${(value * 100).toFixed(1)} %` : "–";
}
