import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function ModelsPage() {
  return <PageHeader title={t.nav.models} />;
}
