import { t } from "../i18n";
import { integer } from "./format";

export const RATE_LIMITS = ["requests_per_minute", "tokens_per_minute", "max_concurrency"] as const;
type Name = (typeof RATE_LIMITS)[number];

/** As the API has them: null is no limit. */
export type RateLimits = Record<Name, number | null>;
/** As a form has them: empty is no limit. */
export type RateLimitValues = Record<Name, number | "">;

export const NO_LIMITS: RateLimitValues = {
  requests_per_minute: "",
  tokens_per_minute: "",
  max_concurrency: "",
};

export function limitValues(limits: RateLimits): RateLimitValues {
  const value = (name: Name) => limits[name] ?? "";
  return {
    requests_per_minute: value("requests_per_minute"),
    tokens_per_minute: value("tokens_per_minute"),
    max_concurrency: value("max_concurrency"),
  };
}

export function limitsOf(values: RateLimitValues): RateLimits {
  const limit = (name: Name) => (values[name] === "" ? null : values[name]);
  return {
    requests_per_minute: limit("requests_per_minute"),
    tokens_per_minute: limit("tokens_per_minute"),
    max_concurrency: limit("max_concurrency"),
  };
}

/** Those that are set, in words; empty where there is none. */
export function limitsLine(limits: RateLimits): string {
  return RATE_LIMITS.flatMap((name) => {
    const limit = limits[name];
    return limit === null ? [] : [t.kit.limits.short[name](integer(limit))];
  }).join(" · ");
}
