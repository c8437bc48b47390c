import { useContracts } from "../../hooks/useContracts";
import { useDeployments } from "../../hooks/useDeployments";

export interface Target {
  id: string;
  name: string;
}

/** Which one a conversation starts with when the URL names none: one that answers, where that is known. */
export function useFirstTarget(
  tenant: string | undefined,
  targets: Target[] | undefined,
): Target | undefined {
  const own = useDeployments(tenant);
  const ready = new Set(own.data?.filter((d) => d.state.ready > 0).map((d) => d.id));
  return targets?.find((one) => ready.has(one.id)) ?? targets?.[0];
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
