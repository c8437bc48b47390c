import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function DecisionsPage() {
  return <PageHeader title={t.nav.decisions} />;
}
