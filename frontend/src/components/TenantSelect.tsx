import { Select, type SelectProps } from "@mantine/core";
import { useScope } from "../hooks/useScope";
import { t } from "../i18n";

/** For an operator who looks at the platform: whose object it is must be said. */
export function TenantSelect(props: SelectProps) {
  const { all } = useScope();
  const data = all.flatMap((s) => (s.tenant ? [{ value: s.tenant, label: s.name }] : []));
  return (
    <Select
      label={t.scope.tenant}
      placeholder={t.scope.choose}
      data={data}
      required
      withAsterisk={false}
      searchable
      {...props}
    />
  );
}
