import { PageHeader } from "../../components/PageHeader";
import { t } from "../../i18n";

export function SettingsPage() {
  return <PageHeader title={t.nav.settings} />;
}
