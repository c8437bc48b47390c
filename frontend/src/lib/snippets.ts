/** A chat request as something to paste: shell, Python (openai) and JavaScript (openai). */

export type Language = "curl" | "python" | "javascript";
export const LANGUAGES: Language[] = ["curl", "python", "javascript"];

export interface ChatBody {
  model: string;
  messages: { role: string; content: string }[];
  stream?: boolean;
  temperature?: number;
  top_p?: number;
  max_tokens?: number;
  seed?: number;
  stop?: string[];
  presence_penalty?: number;
  frequency_penalty?: number;
  top_k?: number;
  min_p?: number;
  repetition_penalty?: number;
}

/** Not OpenAI's: its Python client sends them only as `extra_body`. */
const EXTRAS: ReadonlySet<string> = new Set(["top_k", "min_p", "repetition_penalty"]);

const KEY = "$BERTH_KEY";

/** `token` stands in for the variable where the key is known: the one time it is shown. */
export function snippet(
  language: Language,
  body: ChatBody,
  token?: string,
  origin: string = location.origin,
): string {
  if (language === "curl") return curl(body, token ?? KEY, origin);
  return language === "python" ? python(body, origin) : javascript(body, origin);
}

function curl(body: ChatBody, token: string, origin: string): string {
  // Inside single quotes of a shell only the quote itself needs care.
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -N ${origin}/v1/chat/completions \\\n  -H "Authorization: Bearer ${token}" \\\n  -d '${json}'`;
}

function literal(value: unknown, language: "python" | "javascript"): string {
  const text = JSON.stringify(value);
  return language === "python" && typeof value === "boolean" ? (value ? "True" : "False") : text;
}

function args(body: ChatBody, language: "python" | "javascript", assign: string, indent: string): string {
  const given = Object.entries(body).filter(([name, value]) => value !== undefined && name !== "stream");
  const apart = language === "python" ? given.filter(([name]) => EXTRAS.has(name)) : [];
  const lines = given
    .filter((one) => !apart.includes(one))
    .map(([name, value]) => `${indent}${name}${assign}${literal(value, language)},`);
  if (apart.length) lines.push(`${indent}extra_body=${JSON.stringify(Object.fromEntries(apart))},`);
  return lines.join("\n");
}

function python(body: ChatBody, origin: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["BERTH_KEY"])
stream = client.chat.completions.create(
${args(body, "python", "=", "    ")}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`;
}

function javascript(body: ChatBody, origin: string): string {
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${origin}/v1", apiKey: process.env.BERTH_KEY });
const stream = await client.chat.completions.create({
${args(body, "javascript", ": ", "  ")}
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}`;
}
