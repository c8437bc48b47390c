import { IconShieldCheck } from "@tabler/icons-react";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar, FilterName, FilterSelect } from "../../components/FilterBar";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { type Looked, useAttainment, useViolations } from "../../hooks/useAttainment";
import { useClasses } from "../../hooks/useClasses";
import { useList } from "../../hooks/useList";
import { useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { t } from "../../i18n";
import { AttainmentCharts } from "./AttainmentCharts";
import { AttainmentTable } from "./AttainmentTable";
import { BudgetMeters } from "./BudgetMeters";
import classes from "./Slas.module.css";
import { ViolationsPanel } from "./ViolationsPanel";

const words = t.slas.attainment;
const GROUPS = ["class", "deployment", "tenant", "contract"] as const;
const FILTERS = ["deployment", "class"] as const;

/** How far the promises were kept: budgets and how fast they burn, over time, by whom, and why not. */
export function AttainmentTab() {
  const { current } = useScope();
  const list = useList({ filters: [...FILTERS, "by"] });
  const range = useTimeRange("24h");
  const looked: Looked = {
    tenant: current?.tenant,
    deployment: list.values.deployment,
    class: list.values.class,
    from: range.from,
    to: range.to,
  };
  const group = GROUPS.find((one) => one === list.values.by) ?? "class";
  const attained = useAttainment({ ...looked, group });
  const reasons = useViolations({ ...looked, group: "reason" });
  const places = useViolations({ ...looked, group: "deployment" });
  const levels = useClasses();
  const groups = current?.tenant ? GROUPS.filter((one) => one !== "tenant") : GROUPS;
  return (
    <>
      <FilterBar list={list}>
        <FilterName
          list={list}
          name="deployment"
          label={words.deployment}
          kind="deployment"
          tenant={current?.tenant}
        />
        <FilterSelect
          list={list}
          name="class"
          label={words.class}
          options={(levels.data ?? []).map((c) => ({ value: c.name, label: c.name }))}
        />
        <FilterSelect
          list={list}
          name="by"
          label={words.groups.class}
          options={groups
            .filter((one) => one !== "class")
            .map((value) => ({ value, label: words.groups[value] }))}
        />
        <TimeRangePicker range={range} />
      </FilterBar>
      <Loaded query={attained}>
        {(data) => (
          <div className={classes.stack}>
            <BudgetMeters total={data.total} />
            {data.total.offered === 0 ? (
              <Panel>
                <EmptyState
                  icon={<IconShieldCheck size={20} stroke={1.6} />}
                  title={words.quiet}
                  text={words.quietText}
                />
              </Panel>
            ) : (
              <>
                <AttainmentCharts data={data} />
                <AttainmentTable
                  rows={data.groups}
                  group={group}
                  onOpen={(row) =>
                    list.set({ deployment: row.deployment ?? undefined, class: row.class_name ?? undefined })
                  }
                />
                <div className={classes.two}>
                  <ViolationsPanel
                    title={words.violations}
                    hint={words.violationsHint}
                    asked={reasons}
                    looked={looked}
                  />
                  <ViolationsPanel title={words.where} asked={places} looked={looked} />
                </div>
              </>
            )}
          </div>
        )}
      </Loaded>
    </>
  );
}
