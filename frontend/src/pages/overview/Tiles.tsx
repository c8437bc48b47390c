import type { ServiceClass } from "../../api/types";
import { StatTile, StatTiles } from "../../components/StatTile";
import { t } from "../../i18n";
import { decimal, integer, milliseconds, percent } from "../../lib/format";
import type { LiveWindow } from "../../live/types";
import type { FigureSet, Range } from "./useFigures";

interface Props {
  figures: FigureSet;
  range: Range;
  newest: LiveWindow | undefined;
  level: ServiceClass | undefined;
}

function attainmentTone(value: number | null, target: number): "good" | "warn" | "bad" | undefined {
  if (value === null) return undefined;
  if (value >= target) return "good";
  return value >= target - 0.1 ? "warn" : "bad";
}

export function Tiles({ figures, range, newest, level }: Props) {
  const { total, loading } = figures;
  const words = t.overview.tiles;
  const span = t.overview.ranges[range];
  const late = total.offered - total.good;
  const ready = newest?.replicas.filter((r) => r.state === "ready").length;
  const tone = attainmentTone(total.attainment, level?.attainment_target ?? 0.95);
  return (
    <StatTiles>
      <StatTile
        loading={loading}
        testId="tile-attainment"
        {...words.attainment}
        value={percent(total.attainment)}
        tone={tone}
        detail={words.ofTarget(percent(level?.attainment_target ?? 0.95))}
      />
      <StatTile
        loading={loading}
        testId="tile-goodput"
        {...words.goodput}
        value={decimal(total.goodput)}
        detail={words.tokens(integer(total.good_tokens), integer(total.tokens))}
      />
      <StatTile
        loading={loading}
        testId="tile-offered"
        label={words.offered.label}
        hint={words.offered.hint}
        unit={total.offered === 1 ? words.offered.one : words.offered.unit}
        value={integer(total.offered)}
        detail={span}
      />
      <StatTile
        loading={loading}
        testId="tile-late"
        label={words.late.label}
        hint={words.late.hint}
        unit={late === 1 ? words.late.one : words.late.unit}
        value={integer(late)}
        tone={late > 0 ? "warn" : undefined}
        detail={words.goodOnes(integer(total.good))}
      />
      <StatTile
        loading={loading}
        testId="tile-ttft"
        {...words.ttft}
        value={milliseconds(total.ttft_ms.p50)}
        detail={words.p95(milliseconds(total.ttft_ms.p95))}
      />
      <StatTile
        loading={loading}
        testId="tile-tpot"
        {...words.tpot}
        value={milliseconds(total.tpot_ms.p50)}
        detail={words.p95(milliseconds(total.tpot_ms.p95))}
      />
      <StatTile
        loading={loading}
        testId="tile-fluidity"
        {...words.fluidity}
        value={percent(total.fluidity_p5)}
        detail={words.floor(percent(level?.fluidity_floor ?? 0.99))}
      />
      <StatTile
        loading={!newest}
        testId="tile-devices"
        {...words.devices}
        value={newest ? `${decimal(newest.devices.in_use)} / ${decimal(newest.devices.total)}` : "–"}
        detail={ready === undefined ? undefined : words.replicas(ready, newest?.replicas.length ?? 0)}
      />
    </StatTiles>
  );
}
