import { SegmentedControl } from "@mantine/core";
import type { Deployment, ServiceClass } from "../../api/types";
import { ErrorState } from "../../components/ErrorState";
import { useClasses } from "../../hooks/useClasses";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { useLive } from "../../live/LiveProvider";
import { Charts } from "../overview/Charts";
import { LateReasons } from "../overview/LateReasons";
import classes from "../overview/Overview.module.css";
import { StaleBar } from "../overview/StaleBar";
import { Tiles } from "../overview/Tiles";
import { RANGES, toRange, useFigures } from "../overview/useFigures";
import own from "./Deployments.module.css";
import { SlaCharts } from "./SlaCharts";

/** The Overview's charts for one deployment, against what its class and its contracts promise. */
export function DeploymentMetrics({ deployment }: { deployment: Deployment }) {
  const { current } = useScope();
  const { values, set } = useUrl();
  const { windows } = useLive();
  const levels = useClasses();
  const range = toRange(values.range);
  const figures = useFigures(range, current?.tenant, deployment.id);
  const level: ServiceClass =
    levels.data?.find((c) => c.id === deployment.service_class.id) ?? deployment.service_class;
  return (
    <div className={classes.stack}>
      <div className={own.range}>
        <SegmentedControl
          size="xs"
          aria-label={t.kit.range.label}
          data={RANGES.map((value) => ({ value, label: t.overview.ranges[value] }))}
          value={range}
          onChange={(value) => set({ range: value === "5m" ? undefined : value })}
        />
      </div>
      <StaleBar />
      {figures.error ? (
        <ErrorState error={figures.error} retry={figures.retry} />
      ) : (
        <>
          <Tiles figures={figures} range={range} newest={windows.at(-1)} level={level} />
          <SlaCharts deployment={deployment} figures={figures} level={level} />
          <Charts figures={figures} level={level} />
          <LateReasons
            loading={figures.loading}
            total={figures.total}
            range={range}
            deployment={deployment.id}
          />
        </>
      )}
    </div>
  );
}
