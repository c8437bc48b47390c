import { ApiError } from "../../api/errors";
import { ChatError } from "../../lib/chat";

export type FailureKind = "limit" | "busy" | "gone" | "invalid" | "denied" | "network" | "broken";

/** Why there is no answer, in a form a person can act on. */
export interface Failure {
  kind: FailureKind;
  /** What the server said. */
  message: string;
  /** When to come back, in ms of `Date.now()`. */
  retryAt: number | null;
  requestId: string | null;
}

const KINDS: Record<number, FailureKind> = {
  400: "invalid",
  401: "denied",
  403: "denied",
  404: "gone",
  413: "invalid",
  429: "limit",
  503: "busy",
};

export function failureOf(error: unknown, nowMs: number = Date.now()): Failure {
  if (error instanceof ChatError) {
    return {
      kind: KINDS[error.status] ?? "broken",
      message: error.message,
      retryAt: error.retryAfterS === null ? null : nowMs + error.retryAfterS * 1000,
      requestId: error.requestId,
    };
  }
  if (error instanceof ApiError) {
    const kind = KINDS[error.status] ?? "broken";
    return { kind, message: error.message, retryAt: null, requestId: null };
  }
  // `fetch` rejects with a TypeError when nobody answers, and when the connection breaks within the answer.
  const kind = error instanceof TypeError ? "network" : "broken";
  return {
    kind,
    message: error instanceof Error ? error.message : String(error),
    retryAt: null,
    requestId: null,
  };
}
