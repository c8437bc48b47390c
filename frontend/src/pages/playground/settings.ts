import type { ChatBody } from "../../lib/snippets";
import type { Turn } from "./useChat";

export const NUMBERS = [
  "temperature",
  "top_p",
  "max_tokens",
  "seed",
  "top_k",
  "min_p",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
] as const;
export type NumberName = (typeof NUMBERS)[number];

/** An empty field is not sent: the deployment's own default applies. `stop` is written with \n for a line's end. */
export type Settings = { system: string; stop: string[] } & Record<NumberName, number | "">;

export const DEFAULTS: Settings = {
  system: "",
  stop: [],
  temperature: "",
  top_p: "",
  max_tokens: "",
  seed: "",
  top_k: "",
  min_p: "",
  presence_penalty: "",
  frequency_penalty: "",
  repetition_penalty: "",
};

export function isDefault(settings: Settings): boolean {
  return (
    !settings.system.trim() && settings.stop.length === 0 && NUMBERS.every((name) => settings[name] === "")
  );
}

const ESCAPES: Record<string, string> = { "\\n": "\n", "\\t": "\t", "\\\\": "\\" };

/** What somebody typed into one line, with its escapes meant. */
export function meantBy(text: string): string {
  return text.replace(/\\[nt\\]/g, (written) => ESCAPES[written] ?? written);
}

export function toBody(
  model: string,
  settings: Settings,
  turns: Pick<Turn, "role" | "text" | "status">[],
): ChatBody {
  const body: ChatBody = { model, messages: [] };
  if (settings.system.trim()) body.messages.push({ role: "system", content: settings.system.trim() });
  for (const turn of turns) {
    // A failed or empty answer is not part of what was said.
    if (turn.text && turn.status !== "failed") body.messages.push({ role: turn.role, content: turn.text });
  }
  for (const name of NUMBERS) {
    const value = settings[name];
    if (value !== "") body[name] = value;
  }
  if (settings.stop.length) body.stop = settings.stop.map(meantBy);
  return body;
}
