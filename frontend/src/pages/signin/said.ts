import { ApiError } from "../../api/errors";
import { t } from "../../i18n";
import { ago } from "../../lib/format";

/** The first answer without a code is a question, no failure; a lockout says for how long. */
export function said(error: Error | null): Error | null {
  if (!(error instanceof ApiError)) return error;
  if (error.code === "mfa_required") return null;
  if (error.status === 429 && error.retryAfter)
    return new Error(t.signin.locked(ago(new Date(Date.now() + error.retryAfter * 1000).toISOString())));
  return error;
}

/** Why the provider's sign-in led nowhere (`berth/oidc/outcome.py`). */
export function failure(code: string | undefined): Error | null {
  if (!code) return null;
  const words: Record<string, string> = t.signin.failed;
  return new Error(words[code] ?? t.signin.failed.provider);
}
