/** What differs between two states of an object, field by field. */

export interface Change {
  field: string;
  before: unknown;
  after: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** `{a: {b: 1}}` as `a.b: 1`; lists stay whole. */
export function flatten(value: unknown, prefix = ""): Map<string, unknown> {
  const out = new Map<string, unknown>();
  if (!isObject(value)) {
    if (value !== null && value !== undefined) out.set(prefix || "value", value);
    return out;
  }
  for (const [name, inner] of Object.entries(value)) {
    const path = prefix ? `${prefix}.${name}` : name;
    if (isObject(inner)) for (const [key, leaf] of flatten(inner, path)) out.set(key, leaf);
    else out.set(path, inner);
  }
  return out;
}

export function changes(before: unknown, after: unknown): Change[] {
  const old = flatten(before);
  const now = flatten(after);
  const fields = [...new Set([...old.keys(), ...now.keys()])];
  return fields
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }))
    .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after));
}
