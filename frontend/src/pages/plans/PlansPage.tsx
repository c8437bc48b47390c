import { Button, Group } from "@mantine/core";
import { IconPuzzle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterSelect } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { useFleetMap } from "../../hooks/useFleetMap";
import { useList } from "../../hooks/useList";
import { useMe } from "../../hooks/useMe";
import { usePlans } from "../../hooks/usePlans";
import { useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { PlanDrawer } from "./PlanDrawer";
import { planColumns } from "./planColumns";

const SPANS = ["1h", "6h", "24h", "7d", "30d"];
const KINDS = ["insert", "compact", "exact", "nothing"] as const;
const STATES = ["running", "done", "abandoned", "idle"] as const;
const ICON = <IconPuzzle size={20} stroke={1.6} />;
type Filter = "q" | "kind" | "state";

/** The text of a URL as one of the values the server knows. */
const oneOf = <Value extends string>(
  known: readonly Value[],
  text: string | undefined,
): Value[] | undefined => {
  const found = known.find((one) => one === text);
  return found && [found];
};

/** How the fleet was packed anew, or why it was left alone; each plan explained. */
export function PlansPage() {
  const operator = useMe().data?.user.is_operator ?? false;
  const { values, set } = useUrl();
  const list = useList<Filter>({ filters: ["q", "kind", "state"], sort: "-at" });
  const range = useTimeRange("7d");
  const { kind, state, ...query } = list.query;
  const page = usePlans(
    { ...query, kind: oneOf(KINDS, kind), state: oneOf(STATES, state), from: range.from, to: range.to },
    operator,
  );
  const columns = useMemo(() => planColumns((id) => set({ plan: id }, true)), [set]);
  const words = t.plans;
  if (!operator) {
    return <EmptyState page icon={ICON} title={words.operatorsOnly} text={t.fleet.operatorsOnlyText} />;
  }
  return (
    <>
      <PageHeader title={words.title} subtitle={words.subtitle}>
        <TimeRangePicker range={range} spans={SPANS} />
      </PageHeader>
      <FilterBar list={list} search={words.search}>
        <FilterSelect
          list={list}
          name="kind"
          label={words.anyKind}
          options={KINDS.map((value) => ({ value, label: words.kinds[value] }))}
        />
        <FilterSelect
          list={list}
          name="state"
          label={words.anyState}
          options={STATES.map((value) => ({ value, label: words.states[value] }))}
        />
      </FilterBar>
      <ResourceTable
        list={list}
        page={page}
        columns={columns}
        rowId={(plan) => plan.id}
        label={words.title}
        testId="plans"
        onOpen={(plan) => set({ plan: plan.id }, true)}
        empty={<NoPlans />}
      />
      <PlanDrawer id={values.plan} onClose={() => set({ plan: undefined })} />
    </>
  );
}

/** None in this time; where the fleet has no GPU that could be packed, none ever, until one joins. */
function NoPlans() {
  const { current } = useScope();
  const map = useFleetMap();
  const words = t.plans;
  if (!map.data || map.data.gpus.some((gpu) => gpu.board)) {
    return <EmptyState icon={ICON} title={words.empty} text={words.emptyText} />;
  }
  const scope = current?.slug ?? "";
  return (
    <EmptyState icon={ICON} title={words.noGpus.title} text={words.noGpus.text}>
      <Group justify="center">
        <Button component={Link} to={`/t/${scope}/fleet?add=1`}>
          {t.fleet.add.action}
        </Button>
        <Button variant="default" component={Link} to={`/t/${scope}/decisions`}>
          {words.noGpus.decisions}
        </Button>
      </Group>
    </EmptyState>
  );
}
