import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function AuditPage() {
  return <PageHeader title={t.nav.audit} />;
}
