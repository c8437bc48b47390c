import { say } from "../i18n";

/** RFC 9457 problem details, as the REST API answers them. */
export interface Problem {
  status: number;
  title: string;
  detail: string;
  code?: string;
  field?: string;
  retryAfter?: number;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly field: string | undefined;
  /** Seconds after which it is worth trying again, where the server says so. */
  readonly retryAfter: number | undefined;

  constructor(problem: Problem) {
    super(say(problem.detail || problem.title));
    this.name = "ApiError";
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
    this.retryAfter = problem.retryAfter;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function toApiError(status: number, body: unknown): ApiError {
  const b = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  return new ApiError({
    status,
    title: text(b.title) || `HTTP ${status}`,
    detail: text(b.detail),
    code: text(b.code) || undefined,
    field: text(b.field) || undefined,
    retryAfter: typeof b.retry_after === "number" ? b.retry_after : undefined,
  });
}
