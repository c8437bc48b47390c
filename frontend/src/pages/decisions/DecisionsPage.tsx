import { IconRoute } from "@tabler/icons-react";
import { EmptyState } from "../../components/EmptyState";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";

export function DecisionsPage() {
  return (
    <>
      <PageHeader title={t.decisions.title} subtitle={t.decisions.subtitle} />
      <Panel flush>
        <EmptyState
          icon={<IconRoute size={20} stroke={1.6} />}
          title={t.decisions.empty}
          text={t.decisions.emptyText}
        />
      </Panel>
    </>
  );
}
