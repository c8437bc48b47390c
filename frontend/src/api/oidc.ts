import { cookie } from "./cookie";
import { toApiError } from "./errors";

/** The provider's sign-in is no part of the API: it is there only where one is configured. */
async function post<T>(path: string, body: object): Promise<T> {
  const response = await fetch(`/oidc/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": cookie("csrftoken") },
    body: JSON.stringify(body),
  });
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) throw toApiError(response.status, answer);
  return answer as T;
}

/** The address at which the provider signs in. */
export const startAtProvider = (next: string) => post<{ url: string }>("start", { next });

/** The second factor of whom the provider vouched for. */
export const confirmCode = (code: string) => post<unknown>("code", { code });
