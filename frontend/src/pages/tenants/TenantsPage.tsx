import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function TenantsPage() {
  return <PageHeader title={t.nav.tenants} />;
}
