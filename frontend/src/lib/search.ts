/** Search parameters of a page: known names with a known kind; anything else in the URL is dropped. */

type Kinds = Record<string, "string" | "boolean">;

type SearchOf<K extends Kinds> = { [Name in keyof K]?: K[Name] extends "boolean" ? boolean : string };

export function searchOf<K extends Kinds>(raw: Record<string, unknown>, kinds: K): SearchOf<K> {
  const out: Record<string, string | boolean> = {};
  for (const [name, kind] of Object.entries(kinds)) {
    const value = raw[name];
    if (kind === "boolean" && (value === true || value === "true")) out[name] = true;
    // The router parses "123" to a number; a name or filter stays text.
    if (kind === "string" && (typeof value === "string" || typeof value === "number") && value !== "")
      out[name] = String(value);
  }
  return out as SearchOf<K>;
}
