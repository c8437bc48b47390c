import type { ChatBody } from "../../lib/snippets";
import type { Turn } from "./useChat";

/** An empty field is not sent: the deployment's own default applies. */
export interface Settings {
  system: string;
  temperature: number | "";
  top_p: number | "";
  max_tokens: number | "";
  seed: number | "";
}

export const DEFAULTS: Settings = { system: "", temperature: "", top_p: "", max_tokens: "", seed: "" };

const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"] as const;

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
  return body;
}
