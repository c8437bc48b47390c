import type { Deployment } from "../../api/types";
import { useClasses } from "../../hooks/useClasses";
import { useScope } from "../../hooks/useScope";
import { useLive } from "../../live/LiveProvider";
import { Charts } from "../overview/Charts";
import { LateReasons } from "../overview/LateReasons";
import classes from "../overview/Overview.module.css";
import { StaleBar } from "../overview/StaleBar";
import { Tiles } from "../overview/Tiles";
import { useFigures } from "../overview/useFigures";

/** The Overview's charts for one deployment, against what its class promises. */
export function DeploymentMetrics({ deployment }: { deployment: Deployment }) {
  const { current } = useScope();
  const { windows } = useLive();
  const levels = useClasses();
  const figures = useFigures("5m", current?.tenant, deployment.id);
  const level = levels.data?.find((c) => c.id === deployment.service_class.id);
  return (
    <div className={classes.stack}>
      <StaleBar />
      <Tiles figures={figures} range="5m" newest={windows.at(-1)} level={level} />
      <Charts figures={figures} level={level} />
      <LateReasons total={figures.total} />
    </div>
  );
}
