/** Search parameters of a page: text under names. `textSearch` keeps all of them, `searchOf` those that are named. */

export type TextSearch = Record<string, string | undefined>;

/** Everything in the URL as text; what is empty is dropped. */
export function textSearch(raw: Record<string, unknown>): TextSearch {
  const out: TextSearch = {};
  for (const [name, value] of Object.entries(raw)) {
    const text = value === undefined || value === null ? "" : String(value);
    if (text !== "") out[name] = text;
  }
  return out;
}

/** Plain `?name=value` both ways: the router would otherwise write text as JSON. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const text = new URLSearchParams(textSearch(search) as Record<string, string>).toString();
  return text && `?${text}`;
}

type Kinds = Record<string, "string" | "boolean">;

type SearchOf<K extends Kinds> = { [Name in keyof K]?: K[Name] extends "boolean" ? boolean : string };

export function searchOf<K extends Kinds>(raw: Record<string, unknown>, kinds: K): SearchOf<K> {
  const out: Record<string, string | boolean> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const value = raw[name];
    if (kind === "boolean" && (value === true || value === "true")) out[name] = true;
    if (kind === "string" && (typeof value === "string" || typeof value === "number") && value !== "")
      out[name] = String(value);
  }
  return out as SearchOf<K>;
}
