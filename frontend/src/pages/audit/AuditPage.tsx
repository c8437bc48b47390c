import { IconHistory } from "@tabler/icons-react";
import { useMemo } from "react";
import type { AuditEvent } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterSelect } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { useAudit } from "../../hooks/useAudit";
import { useList } from "../../hooks/useList";
import { tenantNames, useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { AuditDrawer } from "./AuditDrawer";
import { ACTIONS, actionWords } from "./actions";
import { auditColumns } from "./auditColumns";

const SPANS = ["1h", "24h", "7d", "30d", "90d"];

export function AuditPage() {
  const { current, all } = useScope();
  const { values, set } = useUrl();
  const list = useList({ filters: ["q", "action", "actor", "object"], sort: "-created_at" });
  const range = useTimeRange("30d");
  const page = useAudit(current?.tenant, { ...list.query, from: range.from, to: range.to });
  const columns = useMemo(() => {
    return auditColumns(tenantNames(all), current?.tenant === undefined);
  }, [all, current?.tenant]);
  return (
    <>
      <PageHeader title={t.audit.title} subtitle={t.audit.subtitle}>
        <TimeRangePicker range={range} spans={SPANS} />
      </PageHeader>
      <FilterBar list={list} search={t.audit.search}>
        <FilterSelect
          list={list}
          name="action"
          label={t.audit.action}
          options={ACTIONS.map((value) => ({ value, label: actionWords(value) }))}
        />
      </FilterBar>
      <ResourceTable<AuditEvent>
        list={list}
        page={page}
        columns={columns}
        rowId={(event) => event.id}
        label={t.audit.title}
        testId="audit"
        onOpen={(event) => set({ event: event.id }, true)}
        empty={
          <EmptyState
            icon={<IconHistory size={20} stroke={1.6} />}
            title={t.audit.empty}
            text={t.audit.emptyText}
          />
        }
      />
      <AuditDrawer id={values.event} onClose={() => set({ event: undefined })} onFilter={set} />
    </>
  );
}
