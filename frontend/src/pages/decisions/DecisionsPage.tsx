import { IconRoute } from "@tabler/icons-react";
import { useMemo } from "react";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterName, FilterSelect } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { useDecisions } from "../../hooks/useDecisions";
import { type ListState, useList } from "../../hooks/useList";
import { useMe } from "../../hooks/useMe";
import { useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { DecisionDrawer } from "./DecisionDrawer";
import { decisionColumns } from "./decisionColumns";

const SPANS = ["1h", "6h", "24h", "7d", "30d"];
const KINDS = ["place", "refuse", "replace", "drain", "scale"] as const;
type Kind = (typeof KINDS)[number];
type Filter = "q" | "kind" | "deployment" | "node" | "replica";

/** What the scheduler decided in a time, and each decision explained. */
export function DecisionsPage() {
  const { current } = useScope();
  const { values, set } = useUrl();
  const list = useList<Filter>({ filters: ["q", "kind", "deployment", "node", "replica"], sort: "-at" });
  const range = useTimeRange("7d");
  const { kind, ...query } = list.query;
  const page = useDecisions({
    ...query,
    kind: KINDS.some((one) => one === kind) ? [kind as Kind] : undefined,
    tenant: current?.tenant,
    from: range.from,
    to: range.to,
  });
  const columns = useMemo(() => decisionColumns((id) => set({ decision: id }, true)), [set]);
  return (
    <>
      <PageHeader title={t.decisions.title} subtitle={t.decisions.subtitle}>
        <TimeRangePicker range={range} spans={SPANS} />
      </PageHeader>
      <Filters list={list} />
      <ResourceTable
        list={list}
        page={page}
        columns={columns}
        rowId={(decision) => decision.id}
        label={t.decisions.title}
        testId="decisions"
        onOpen={(decision) => set({ decision: decision.id }, true)}
        empty={
          <EmptyState
            icon={<IconRoute size={20} stroke={1.6} />}
            title={t.decisions.empty}
            text={t.decisions.emptyText}
          />
        }
      />
      <DecisionDrawer id={values.decision} onClose={() => set({ decision: undefined })} />
    </>
  );
}

function Filters({ list }: { list: ListState<Filter> }) {
  const { current } = useScope();
  const operator = useMe().data?.user.is_operator ?? false;
  const words = t.decisions;
  return (
    <FilterBar list={list} search={words.search}>
      <FilterSelect
        list={list}
        name="kind"
        label={words.anyKind}
        options={KINDS.map((value) => ({ value, label: words.kinds[value] ?? value }))}
      />
      <FilterName
        list={list}
        name="deployment"
        label={words.anyDeployment}
        kind="deployment"
        tenant={current?.tenant}
      />
      {operator && <FilterName list={list} name="node" label={words.anyNode} kind="node" />}
    </FilterBar>
  );
}
