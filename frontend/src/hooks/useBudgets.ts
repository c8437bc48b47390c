import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, unwrap } from "../api/client";
import type { SpendingBudget } from "../api/types";

export interface BudgetsByHolder {
  currency: string;
  of: (id: string) => SpendingBudget[];
}

/** Budgets of all keys, tenants or contracts that may be seen, by the id of whose they are. */
export function useBudgets(kind: SpendingBudget["kind"], tenant: string | undefined): BudgetsByHolder {
  const { data } = useQuery({
    queryKey: ["budgets", kind, tenant ?? null],
    refetchInterval: 15_000,
    queryFn: () => unwrap(api.GET("/api/v1/budgets", { params: { query: { kind, tenant } } })),
  });
  return useMemo(() => {
    const byHolder = new Map<string, SpendingBudget[]>();
    for (const one of data?.budgets ?? []) byHolder.set(one.id, [...(byHolder.get(one.id) ?? []), one]);
    return { currency: data?.currency ?? "", of: (id) => byHolder.get(id) ?? [] };
  }, [data]);
}
