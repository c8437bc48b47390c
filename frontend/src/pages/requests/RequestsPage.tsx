import { Button } from "@mantine/core";
import { IconListSearch } from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { EmptyState } from "../../components/EmptyState";
import { FilterBar } from "../../components/FilterBar";
import { PageHeader } from "../../components/PageHeader";
import { ResourceTable } from "../../components/ResourceTable";
import { TimeRangePicker } from "../../components/TimeRangePicker";
import { useList } from "../../hooks/useList";
import { type RequestQuery, useRequests } from "../../hooks/useRequests";
import { useScope } from "../../hooks/useScope";
import { useTimeRange } from "../../hooks/useTimeRange";
import { t } from "../../i18n";
import { RequestFilters } from "./RequestFilters";
import { requestColumns } from "./requestColumns";

export const FILTERS = [
  "q",
  "verdict",
  "reason",
  "tenant",
  "deployment",
  "class",
  "key",
  "member",
  "replica",
] as const;

/** Every request, and whether it was what was promised. A line opens to why. */
export function RequestsPage() {
  const { current } = useScope();
  const navigate = useNavigate();
  const list = useList({ filters: FILTERS, sort: "-arrived_at" });
  const range = useTimeRange("24h");
  const page = useRequests({
    ...list.query,
    tenant: current?.tenant ?? list.values.tenant,
    from: range.from,
    to: range.to,
  } as RequestQuery);
  const scope = current?.slug ?? "";
  const columns = useMemo(() => requestColumns(current?.tenant === undefined), [current?.tenant]);
  const words = t.requests;
  return (
    <>
      <PageHeader title={words.title} subtitle={words.subtitle} />
      <FilterBar list={list} search={words.search}>
        <RequestFilters list={list} />
        <TimeRangePicker range={range} />
      </FilterBar>
      <ResourceTable
        list={list}
        page={page}
        columns={columns}
        rowId={(one) => one.request_id}
        label={words.title}
        onOpen={(one) =>
          void navigate({ to: "/t/$scope/requests/$id", params: { scope, id: one.request_id } })
        }
        testId="requests"
        empty={
          <EmptyState
            icon={<IconListSearch size={20} stroke={1.6} />}
            title={words.empty}
            text={words.emptyText}
          >
            <Button component={Link} to={`/t/${scope}/playground`}>
              {t.overview.openPlayground}
            </Button>
          </EmptyState>
        }
      />
    </>
  );
}
