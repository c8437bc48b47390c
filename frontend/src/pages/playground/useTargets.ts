import { useContracts } from "../../hooks/useContracts";
import { useDeployments } from "../../hooks/useDeployments";
import { useScope } from "../../hooks/useScope";
import { firstOf, type Target, targetsOf } from "./targets";

interface Targets {
  data: Target[] | undefined;
  /** The one a conversation starts with when the URL names none: one that answers, where that is known. */
  first: Target | undefined;
  ready: ReadonlySet<string>;
  error: Error | null;
  retry: () => void;
}

/** What a person may talk to: every deployment the tenant has an open contract on; for the platform, each tenant's. */
export function useTargets(): Targets {
  const { current } = useScope();
  const contracts = useContracts(current?.tenant, current !== undefined);
  const deployments = useDeployments(current?.tenant);
  const ready = new Set(deployments.data?.filter((d) => d.state.ready > 0).map((d) => d.id));
  const data = contracts.data && targetsOf(contracts.data);
  return {
    data,
    first: data && firstOf(data, ready),
    ready,
    error: contracts.error,
    retry: () => void contracts.refetch(),
  };
}
