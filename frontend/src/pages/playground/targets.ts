import type { Contract, ServiceClass } from "../../api/types";

/** One contract seen as something to talk to: a request counts towards it and is judged by its class. */
export interface Target {
  key: string;
  deployment: string;
  name: string;
  tenant: string;
  tenantName: string;
  level: ServiceClass;
}

export function targetsOf(contracts: Contract[], nowMs: number = Date.now()): Target[] {
  return contracts
    .filter((c) => Date.parse(c.valid_from) <= nowMs)
    .map((c) => ({
      key: `${c.tenant.id} ${c.deployment.id}`,
      deployment: c.deployment.id,
      name: c.deployment.name,
      tenant: c.tenant.id,
      tenantName: c.tenant.name,
      level: c.service_class,
    }))
    .sort((a, b) => a.tenantName.localeCompare(b.tenantName) || a.name.localeCompare(b.name));
}

export function firstOf(targets: Target[], ready: ReadonlySet<string>): Target | undefined {
  return targets.find((one) => ready.has(one.deployment)) ?? targets[0];
}

/** The one that the URL names; a deployment without a tenant means its first contract. */
export function namedBy(
  targets: Target[],
  deployment: string | undefined,
  tenant: string | undefined,
): Target | undefined {
  const fitting = targets.filter((one) => one.deployment === deployment);
  return fitting.find((one) => one.tenant === tenant) ?? (tenant ? undefined : fitting[0]);
}

/** Whom to set beside `left` first: another class that answers, another that answers, anything else, itself. */
export function besides(targets: Target[], left: Target, ready: ReadonlySet<string>): Target {
  const others = targets.filter((one) => one.key !== left.key);
  const answering = others.filter((one) => ready.has(one.deployment));
  const tests: ((one: Target) => boolean)[] = [
    (one) => one.tenant === left.tenant && one.level.name !== left.level.name,
    (one) => one.level.name !== left.level.name,
    () => true,
  ];
  for (const test of tests) {
    const found = answering.find(test);
    if (found) return found;
  }
  return others[0] ?? left;
}

interface Option {
  value: string;
  label: string;
}

/** For a Select: one list for one tenant; for several, a group each. */
export function optionsOf(targets: Target[]): Option[] | { group: string; items: Option[] }[] {
  const option = (one: Target): Option => ({ value: one.key, label: `${one.name} · ${one.level.name}` });
  const tenants = new Map<string, Option[]>();
  for (const one of targets) {
    tenants.set(one.tenantName, [...(tenants.get(one.tenantName) ?? []), option(one)]);
  }
  if (tenants.size < 2) return targets.map(option);
  return [...tenants].map(([group, items]) => ({ group, items }));
}
