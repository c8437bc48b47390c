import { MultiSelect } from "@mantine/core";
import { useContracts } from "../../hooks/useContracts";
import { t } from "../../i18n";

interface Props {
  tenant: string | undefined;
  value: string[];
  onChange: (ids: string[]) => void;
}

/** Which deployments a key opens: those that the tenant has a contract on, its own and others'. */
export function DeploymentsField({ tenant, value, onChange }: Props) {
  const contracts = useContracts(tenant);
  const names = new Map((contracts.data ?? []).map((c) => [c.deployment.id, c.deployment.name]));
  for (const id of value) if (!names.has(id)) names.set(id, id);
  return (
    <MultiSelect
      label={t.keys.deployments}
      description={t.keys.deploymentsHint}
      placeholder={value.length === 0 ? t.keys.allDeployments : undefined}
      data={[...names].map(([id, name]) => ({ value: id, label: name }))}
      value={value}
      onChange={onChange}
      searchable
      clearable
      // In a dialog on a phone a name and the field stay in one line
      styles={{ inputField: { minWidth: 48 } }}
    />
  );
}
