import { Select, type SelectProps } from "@mantine/core";
import { tenantOptions, useScope } from "../hooks/useScope";
import { t } from "../i18n";

/** For an operator who looks at the platform: whose object it is must be said. */
export function TenantSelect(props: SelectProps) {
  const { all } = useScope();
  return (
    <Select
      label={t.scope.tenant}
      placeholder={t.scope.choose}
      data={tenantOptions(all)}
      required
      withAsterisk={false}
      searchable
      {...props}
    />
  );
}
