import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function ModelPage() {
  return <PageHeader title={t.nav.models} />;
}
