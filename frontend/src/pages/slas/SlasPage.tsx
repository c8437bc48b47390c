import { PageHeader } from "../../components/PageHeader";
import { UrlTabs } from "../../components/UrlTabs";
import { t } from "../../i18n";
import { AttainmentTab } from "./AttainmentTab";
import { ClassesTab } from "./ClassesTab";
import { ContractsTab } from "./ContractsTab";

const TABS = [
  { id: "attainment", label: t.slas.tabs.attainment, content: () => <AttainmentTab /> },
  { id: "contracts", label: t.slas.tabs.contracts, content: () => <ContractsTab /> },
  { id: "classes", label: t.slas.tabs.classes, content: () => <ClassesTab /> },
];

/** What is promised, to whom, and how far it was kept. */
export function SlasPage() {
  return (
    <>
      <PageHeader title={t.slas.title} subtitle={t.slas.subtitle} />
      <UrlTabs tabs={TABS} label={t.slas.title} />
    </>
  );
}
