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

interface Answer<T> {
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

interface Page<T> {
  next?: string | null;
  results: T[];
}

const PAGES_AT_MOST = 20;

/** Every row of a cursor-paged list. `get` is given the cursor of the next page. */
export async function collect<T>(get: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  for (let i = 0; i < PAGES_AT_MOST; i += 1) {
    const page = await get(cursor);
    rows.push(...page.results);
    const next = page.next ? new URL(page.next, location.origin).searchParams.get("cursor") : null;
    if (!next) return rows;
    cursor = next;
  }
  return rows;
}
