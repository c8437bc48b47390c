import { Skeleton } from "@mantine/core";
import { t } from "../../i18n";
import { integer, percent } from "../../lib/format";
import { pickDeployment, summarise } from "../../live/figures";
import { useLive } from "../../live/LiveProvider";

/** good / offered of the last five minutes, as the websocket told them. */
export function LiveAttainment({ deployment }: { deployment: string }) {
  const { windows } = useLive();
  const figures = summarise(windows.map(pickDeployment(deployment)));
  if (windows.length === 0) return <Skeleton height={14} width={70} aria-busy="true" />;
  if (!figures.offered) return <span className="muted">{t.deployments.noTraffic}</span>;
  return (
    <span className="num">
      {percent(figures.attainment)} <span className="muted">{t.overview.of(integer(figures.offered))}</span>
    </span>
  );
}
