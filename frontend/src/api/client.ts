import createClient, { type Middleware } from "openapi-fetch";
import { cookie } from "./cookie";
import { toApiError } from "./errors";
import type { paths } from "./schema";

const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);

const csrf: Middleware = {
  onRequest({ request }) {
    if (!SAFE.has(request.method)) request.headers.set("X-CSRFToken", cookie("csrftoken"));
    return request;
  },
};

/** The management API, typed from the server's schema. Same origin: the session cookie goes along by itself. */
export const api = createClient<paths>({ baseUrl: location.origin, credentials: "same-origin" });
api.use(csrf);

export interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a good answer; anything else is thrown as an ApiError. */
export async function unwrap<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw toApiError(response.status, error);
  return data as T;
}

export interface Tagged<T> {
  value: T;
  /** Names the state that was read; sent back as If-Match. */
  etag: string | undefined;
}

/** Like `unwrap`, with the object's ETag. */
export async function unwrapTagged<T>(answer: Promise<Answer<T>>): Promise<Tagged<T>> {
  const whole = await answer;
  return {
    value: await unwrap(Promise.resolve(whole)),
    etag: whole.response.headers.get("ETag") ?? undefined,
  };
}

export interface Page<T> {
  next?: string | null;
  previous?: string | null;
  results: T[];
}

/** The cursor in the address of another page. */
export function cursorOf(address: string | null | undefined): string | undefined {
  return (address && new URL(address, location.origin).searchParams.get("cursor")) || undefined;
}

const PAGES_AT_MOST = 20;
/** The server's largest page: a whole list comes in few questions. */
export const WHOLE = 200;

/** Every row of a cursor-paged list. `get` is given the cursor of the next page. */
export async function collect<T>(get: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  for (let i = 0; i < PAGES_AT_MOST; i += 1) {
    const page = await get(cursor);
    rows.push(...page.results);
    cursor = cursorOf(page.next);
    if (!cursor) return rows;
  }
  return rows;
}
