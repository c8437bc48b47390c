import { t } from "../i18n";

const SLUG = /^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$/;

/** Why a name cannot be a deployment's (it doubles as `model` in requests), or null. */
export function slugError(name: string): string | null {
  return SLUG.test(name) ? null : t.deployments.form.nameRule;
}

/** A name that is allowed, from any text. */
export function toSlug(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/^[^a-z0-9]+/, "")
    .slice(0, 63)
    .replace(/[^a-z0-9]+$/, "");
}
