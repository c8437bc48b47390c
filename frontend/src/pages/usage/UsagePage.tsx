import { SegmentedControl } from "@mantine/core";
import { IconChartBar } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import type { UsageGroup, UsageRow } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar } from "../../components/FilterBar";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { WhoseFilters } from "../../components/WhoseFilters";
import { useList } from "../../hooks/useList";
import { useNames } from "../../hooks/useNames";
import { useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { useUrl } from "../../hooks/useUrl";
import { type UsageCells, useUsage } from "../../hooks/useUsage";
import { t } from "../../i18n";
import { FirstRequest } from "../overview/FirstRequest";
import { deeper, isDeepest } from "./drill";
import { ExportMenu } from "./ExportMenu";
import { Reconciled } from "./Reconciled";
import { MEASURES, type Measure, timeOf } from "./series";
import classes from "./Usage.module.css";
import { UsageChart } from "./UsageChart";
import { UsageTable } from "./UsageTable";
import { UsageTiles } from "./UsageTiles";

const words = t.usage;
const GROUPS: UsageGroup[] = ["tenant", "deployment", "class", "key", "member", "day", "hour"];
const SPANS = ["24h", "7d", "30d", "90d"] as const;

/** What was used, by whom and for how much; a row opens one level deeper, down to its requests. */
export function UsagePage() {
  const { current } = useScope();
  const url = useUrl();
  const navigate = useNavigate();
  const list = useList({ filters: ["tenant", "member", "key", "deployment", "class"] });
  const range = useTimeRange("7d");
  const groups = current?.tenant ? GROUPS.filter((one) => one !== "tenant") : GROUPS;
  const by = groups.find((one) => one === url.values.by) ?? (current?.tenant ? "deployment" : "tenant");
  const measure: Measure = MEASURES.find((one) => one === url.values.measure) ?? "tokens";
  const cells: UsageCells = {
    ...list.values,
    tenant: current?.tenant ?? list.values.tenant,
    from: range.from,
    to: range.to,
  };
  const time = timeOf(range.from, range.to);
  const names = useNames("deployment", "", current?.tenant).data?.names;
  const table = useUsage(cells, [by]);
  // By time there is nothing to tell apart within a bar: the classes are.
  const overTime = useUsage(cells, [time, by === "day" || by === "hour" ? "class" : by]);
  const open = (row: UsageRow) => {
    const patch = deeper(by, row);
    if (!isDeepest(by)) return url.set(patch, true);
    const search = { ...list.values, ...patch };
    return void navigate({ to: "/t/$scope/requests", params: { scope: current?.slug ?? "" }, search });
  };
  return (
    <>
      <PageHeader title={words.title} subtitle={words.subtitle}>
        <ExportMenu cells={cells} group={by} />
      </PageHeader>
      <FilterBar list={list}>
        <WhoseFilters list={list} words={words.groups} />
        <TimeRangePicker range={range} spans={SPANS} />
      </FilterBar>
      <Loaded query={table}>
        {(data) => (
          <div className={classes.stack}>
            <UsageTiles total={data.total} currency={data.currency} />
            {data.total.requests === 0 ? (
              <Panel>
                <EmptyState
                  icon={<IconChartBar size={20} stroke={1.6} />}
                  title={words.empty}
                  text={words.emptyText}
                >
                  <FirstRequest deployment={names?.[0]} />
                </EmptyState>
              </Panel>
            ) : (
              <>
                <UsageChart
                  asked={overTime}
                  measure={measure}
                  span={range}
                  time={time}
                  currency={data.currency}
                >
                  <SegmentedControl
                    size="xs"
                    aria-label={words.measure}
                    data={MEASURES.map((value) => ({ value, label: words.measures[value] }))}
                    value={measure}
                    onChange={(value) => url.set({ measure: value === "tokens" ? undefined : value })}
                  />
                </UsageChart>
                <div className={classes.by}>
                  <SegmentedControl
                    size="xs"
                    aria-label={words.by}
                    data={groups.map((value) => ({ value, label: words.groups[value] }))}
                    value={by}
                    onChange={(value) => url.set({ by: value }, true)}
                    data-testid="usage-by"
                  />
                </div>
                <UsageTable data={data} group={by} onOpen={open} />
              </>
            )}
            <Reconciled />
          </div>
        )}
      </Loaded>
    </>
  );
}
