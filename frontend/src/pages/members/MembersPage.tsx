import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function MembersPage() {
  return <PageHeader title={t.nav.members} />;
}
