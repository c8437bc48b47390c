import { t } from "../../i18n";
import { bytes, decimal, integer, NONE } from "../../lib/format";

/** A figure of a decision as a person reads it; the end of its name says its unit. */
export function inputText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return NONE;
  if (typeof value === "number") {
    if (name.endsWith("_bytes")) return bytes(value);
    if (name.endsWith("_s")) return `${decimal(value)} s`;
    return Number.isInteger(value) ? integer(value) : decimal(value);
  }
  if (Array.isArray(value)) return value.map((one) => inputText("", one)).join(", ") || NONE;
  if (typeof value === "object") {
    return (
      Object.entries(value)
        .map(([key, one]) => `${inputName(key)} ${inputText(key, one)}`)
        .join(", ") || NONE
    );
  }
  return String(value);
}

/** `memory_bytes` reads as "memory": the unit stands with the figure. */
export function inputName(name: string): string {
  const bare = name.replace(/_(bytes|s)$/, "");
  const plain = t.decisions.inputs[bare] ?? bare.replaceAll("_", " ");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}
