import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function SlasPage() {
  return <PageHeader title={t.nav.slas} />;
}
