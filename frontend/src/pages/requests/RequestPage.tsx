import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function RequestPage() {
  return <PageHeader title={t.nav.requests} />;
}
