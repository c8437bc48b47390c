import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function UsagePage() {
  return <PageHeader title={t.nav.usage} />;
}
