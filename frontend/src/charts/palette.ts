/** Colours come from the CSS variables, so a chart follows the colour scheme. */
export type Ink =
  | "surface"
  | "accent"
  | "accent-2"
  | "good"
  | "late"
  | "bad"
  | "muted"
  | "faint"
  | "grid"
  | "warn";

export function ink(name: Ink): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--b-${name}`).trim();
}
