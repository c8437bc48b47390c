import { SegmentedControl } from "@mantine/core";
import { IconActivity } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { NameSelect } from "../../components/NameSelect";
import { PageHeader } from "../../components/PageHeader";
import { Panel } from "../../components/Panel";
import { useClasses } from "../../hooks/useClasses";
import { useDeployment } from "../../hooks/useDeployments";
import { useNames } from "../../hooks/useNames";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { useLive } from "../../live/LiveProvider";
import { Charts } from "./Charts";
import { ClassAttainment } from "./ClassAttainment";
import { Factors } from "./Factors";
import { FiringPanel } from "./FiringPanel";
import { FirstSnippet } from "./FirstRequest";
import { LateReasons } from "./LateReasons";
import { NextSteps } from "./NextSteps";
import classes from "./Overview.module.css";
import { ReplicaTable } from "./ReplicaTable";
import { StaleBar } from "./StaleBar";
import { Tiles } from "./Tiles";
import { RANGES, toRange, useFigures } from "./useFigures";

export function OverviewPage() {
  const search = useSearch({ from: "/t/$scope/overview" });
  const navigate = useNavigate({ from: "/t/$scope/overview" });
  const { current } = useScope();
  const range = toRange(search.range);
  const figures = useFigures(range, current?.tenant, search.deployment);
  const names = useNames("deployment", "", current?.tenant).data?.names;
  const serviceClasses = useClasses();
  const { windows } = useLive();

  // With one deployment there is one promise, chosen or not.
  const chosen = useDeployment(search.deployment ?? (names?.length === 1 ? names[0]?.id : undefined)).data;
  const level = serviceClasses.data?.find((c) => c.id === chosen?.service_class.id);
  const first = chosen ?? names?.[0];
  const quiet = !figures.loading && figures.total.offered === 0;

  return (
    <>
      <PageHeader title={t.overview.title} subtitle={t.overview.subtitle}>
        <NameSelect
          kind="deployment"
          tenant={current?.tenant}
          aria-label={t.overview.filter}
          placeholder={t.overview.allDeployments}
          value={search.deployment ?? null}
          onChange={(value) => navigate({ search: (s) => ({ ...s, deployment: value ?? undefined }) })}
          clearable
          w={190}
        />
        <SegmentedControl
          size="sm"
          aria-label={t.overview.range}
          data={RANGES.map((r) => ({ value: r, label: t.overview.ranges[r] }))}
          value={range}
          onChange={(value) =>
            navigate({ search: (s) => ({ ...s, range: value === "5m" ? undefined : value }) })
          }
        />
      </PageHeader>
      <StaleBar />
      {figures.error ? (
        <Panel>
          <ErrorState error={figures.error} retry={figures.retry} />
        </Panel>
      ) : (
        <div className={classes.stack}>
          <FiringPanel />
          <Tiles figures={figures} range={range} newest={windows.at(-1)} level={level} />
          {quiet && (
            <Panel>
              <EmptyState
                icon={<IconActivity size={20} stroke={1.6} />}
                title={t.overview.quiet}
                text={t.overview.quietText}
              >
                <NextSteps />
                {first && <FirstSnippet deployment={first} />}
              </EmptyState>
            </Panel>
          )}
          <Charts figures={figures} level={level} />
          <div className={classes.three}>
            <ClassAttainment
              loading={figures.loading}
              rows={figures.classes}
              classes={serviceClasses.data ?? []}
            />
            <LateReasons
              loading={figures.loading}
              total={figures.total}
              range={range}
              deployment={search.deployment}
            />
            <Factors total={figures.total} />
          </div>
          <ReplicaTable deployment={search.deployment} />
        </div>
      )}
    </>
  );
}
