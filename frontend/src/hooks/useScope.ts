import { useParams } from "@tanstack/react-router";
import { t } from "../i18n";
import { useMe } from "./useMe";
import { useTenants } from "./useTenants";

export const PLATFORM = "~platform";

export interface Scope {
  slug: string;
  /** The tenant's id; undefined for the platform as a whole. */
  tenant: string | undefined;
  name: string;
  role: string | undefined;
}

export interface Scopes {
  all: Scope[];
  current: Scope | undefined;
  ready: boolean;
  operator: boolean;
  /** Owners, admins and operators change deployments; developers create keys and chat too. */
  canChange: boolean;
  canUse: boolean;
}

/** The tenants among scopes, for a choice among them. */
export function tenantOptions(scopes: Scope[]): { value: string; label: string }[] {
  return scopes.flatMap((one) => (one.tenant ? [{ value: one.tenant, label: one.name }] : []));
}

/** What the tenants among scopes are called, by their id. */
export function tenantNames(scopes: Scope[]): Map<string, string> {
  return new Map(tenantOptions(scopes).map(({ value, label }) => [value, label]));
}

const CHANGES = new Set(["owner", "admin"]);

/** The tenants a person can look at, and the one the URL names. */
export function useScope(): Scopes {
  const { scope: slug } = useParams({ strict: false });
  const me = useMe();
  const operator = me.data?.user.is_operator ?? false;
  const tenants = useTenants(operator);
  const memberships = me.data?.memberships ?? [];
  const mine = memberships.map(
    ({ tenant, role }): Scope => ({ slug: tenant.slug, tenant: tenant.id, name: tenant.name, role }),
  );
  const others = (tenants.data ?? [])
    .filter((one) => !mine.some((m) => m.tenant === one.id))
    .map((one): Scope => ({ slug: one.slug, tenant: one.id, name: one.name, role: undefined }));
  const platform: Scope[] = operator
    ? [{ slug: PLATFORM, tenant: undefined, name: t.scope.platform, role: undefined }]
    : [];
  const all = [...platform, ...mine, ...others];
  const current = all.find((one) => one.slug === slug);
  return {
    all,
    current,
    ready: me.isSuccess && (!operator || !tenants.isPending),
    operator,
    canChange: operator || CHANGES.has(current?.role ?? ""),
    canUse: operator || (current?.role !== undefined && current.role !== "viewer"),
  };
}
