import { useParams } from "@tanstack/react-router";
import { createContext, useContext, useMemo } from "react";
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

const Context = createContext<Scopes | null>(null);

/** Around everything that asks for the scope: cells of a hundred rows do, and none of them works it out again. */
export const ScopeProvider = Context.Provider;

/** The tenants a person can look at, and the one the URL names. */
export function useScope(): Scopes {
  const scopes = useContext(Context);
  if (!scopes) throw new Error("useScope outside ScopeProvider");
  return scopes;
}

/** What `ScopeProvider` hands down. */
export function useScopes(): Scopes {
  const { scope: slug } = useParams({ strict: false });
  const me = useMe();
  const operator = me.data?.user.is_operator ?? false;
  const tenants = useTenants(operator);
  const ready = me.isSuccess && (!operator || !tenants.isPending);
  return useMemo(() => {
    const mine = (me.data?.memberships ?? []).map(
      ({ tenant, role }): Scope => ({ slug: tenant.slug, tenant: tenant.id, name: tenant.name, role }),
    );
    const known = new Set(mine.map((one) => one.tenant));
    const others = (tenants.data ?? [])
      .filter((one) => !known.has(one.id))
      .map((one): Scope => ({ slug: one.slug, tenant: one.id, name: one.name, role: undefined }));
    const platform: Scope[] = operator
      ? [{ slug: PLATFORM, tenant: undefined, name: t.scope.platform, role: undefined }]
      : [];
    const all = [...platform, ...mine, ...others];
    const current = all.find((one) => one.slug === slug);
    return {
      all,
      current,
      ready,
      operator,
      canChange: operator || CHANGES.has(current?.role ?? ""),
      canUse: operator || (current?.role !== undefined && current.role !== "viewer"),
    };
  }, [me.data, tenants.data, operator, slug, ready]);
}
