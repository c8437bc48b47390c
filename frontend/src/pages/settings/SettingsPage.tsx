import { PageHeader } from "../../components/PageHeader";
import { type TabItem, UrlTabs } from "../../components/UrlTabs";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { AccountTab } from "./AccountTab";
import { AlertsTab } from "./AlertsTab";
import { PlatformTab } from "./PlatformTab";

export function SettingsPage() {
  const { operator, canChange } = useScope();
  const tabs: TabItem[] = [{ id: "account", label: t.settings.account, content: () => <AccountTab /> }];
  if (operator) tabs.push({ id: "platform", label: t.settings.platform, content: () => <PlatformTab /> });
  if (canChange) tabs.push({ id: "alerts", label: t.settings.alerts, content: () => <AlertsTab /> });
  return (
    <>
      <PageHeader title={t.settings.title} subtitle={t.settings.subtitle} />
      <UrlTabs tabs={tabs} label={t.settings.tabs} />
    </>
  );
}
