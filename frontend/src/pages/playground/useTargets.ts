import { useContracts } from "../../hooks/useContracts";

export interface Target {
  id: string;
  name: string;
}

/** What a tenant may talk to: every deployment it has an open contract on, its own and others'. */
export function useTargets(tenant: string | undefined): {
  data: Target[] | undefined;
  error: Error | null;
  retry: () => void;
} {
  const contracts = useContracts(tenant);
  const rows = contracts.data?.map((c) => c.deployment).sort((a, b) => a.name.localeCompare(b.name));
  return { data: tenant ? rows : [], error: contracts.error, retry: () => void contracts.refetch() };
}
