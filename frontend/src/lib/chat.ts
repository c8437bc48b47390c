import { say } from "../i18n";
import type { ChatBody } from "./snippets";
import { readEvents } from "./sse";

/** `event: berth.verdict`, asked for with `x-berth-verdict: 1`. */
export interface Verdict {
  request_id: string;
  good: boolean;
  compatible: boolean;
  reason: string | null;
  ttft_ms: number | null;
  ttft_limit_ms: number | null;
  tpot_ms: number | null;
  fluidity: number | null;
  tokens: number;
  queue_ms: number | null;
  prefill_ms: number | null;
  decode_ms: number | null;
  cached_tokens: number | null;
}

export interface Heard {
  onText: (text: string) => void;
  onVerdict: (verdict: Verdict) => void;
  onUsage: (completionTokens: number) => void;
  onFinish: (reason: string) => void;
}

/** An answer of /v1 that is not 200, or an error inside the stream: OpenAI's error object. */
export class ChatError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null,
    /** When the server asks to come back, in seconds from now. */
    readonly retryAfterS: number | null = null,
    /** The field of the request that is wrong. */
    readonly param: string | null = null,
    readonly requestId: string | null = null,
  ) {
    super(message);
    this.name = "ChatError";
  }
}

interface Frame {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: { completion_tokens?: number } | null;
  error?: { message?: string; code?: string | null; param?: string | null };
}

/** `Retry-After` is whole seconds here; anything else is not understood and so not shown. */
function retryAfter(headers: Headers): number | null {
  const seconds = Number.parseInt(headers.get("retry-after") ?? "", 10);
  return Number.isFinite(seconds) ? seconds : null;
}

async function failure(response: Response): Promise<ChatError> {
  const body = (await response.json().catch(() => null)) as Frame | null;
  return new ChatError(
    say(body?.error?.message ?? `HTTP ${response.status}`),
    response.status,
    body?.error?.code ?? null,
    retryAfter(response.headers),
    body?.error?.param ?? null,
    response.headers.get("x-request-id"),
  );
}

/** Streams one answer. Rejects with ChatError, or AbortError when `signal` fires. */
export async function streamChat(
  body: ChatBody,
  token: string,
  signal: AbortSignal,
  heard: Heard,
): Promise<void> {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    credentials: "omit",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}`, "X-Berth-Verdict": "1" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok || !response.body) throw await failure(response);
  for await (const { event, data } of readEvents(response.body)) {
    if (data === "[DONE]") return;
    if (event === "berth.verdict") {
      heard.onVerdict(JSON.parse(data) as Verdict);
      continue;
    }
    const frame = JSON.parse(data) as Frame;
    if (frame.error) throw new ChatError(say(frame.error.message ?? ""), 200, frame.error.code ?? null);
    const choice = frame.choices?.[0];
    if (choice?.delta?.content) heard.onText(choice.delta.content);
    if (choice?.finish_reason) heard.onFinish(choice.finish_reason);
    if (frame.usage?.completion_tokens !== undefined) heard.onUsage(frame.usage.completion_tokens);
  }
}
