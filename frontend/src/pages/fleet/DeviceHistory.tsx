import { SegmentedControl } from "@mantine/core";
import { IconChartLine } from "@tabler/icons-react";
import { useMemo } from "react";
import type { HistoryPoint, MapGpu } from "../../api/fleet";
import { ChartPanel } from "../../charts/ChartPanel";
import { BINARY_STEPS } from "../../charts/options";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { useDeviceHistory } from "../../hooks/useNodes";
import { useUrl } from "../../hooks/useUrl";
import { say, t } from "../../i18n";
import { bytes, integer, percent } from "../../lib/format";
import classes from "./Fleet.module.css";
import { Simulated } from "./Simulated";

const MINUTES = ["15", "60", "360", "1440"] as const;

/** What a device did over time: memory used against promised and all, utilisation, temperature, power. */
export function DeviceHistory({ gpu }: { gpu: MapGpu }) {
  const { values, set } = useUrl();
  const chosen = MINUTES.find((m) => m === values.minutes) ?? "60";
  const history = useDeviceHistory(gpu.id, Number(chosen));
  return (
    <section aria-label={`${gpu.index} · ${say(gpu.name)}`} data-testid="device-history">
      <div className={classes.filters}>
        <SegmentedControl
          size="xs"
          aria-label={t.fleet.device.range}
          data={MINUTES.map((value) => ({ value, label: t.fleet.device.ranges[value] ?? value }))}
          value={chosen}
          onChange={(value) => set({ minutes: value === "60" ? undefined : value })}
        />
        {gpu.simulated && <Simulated />}
      </div>
      <Loaded query={history}>
        {(points) =>
          points.length === 0 ? (
            <EmptyState
              icon={<IconChartLine size={20} stroke={1.6} />}
              title={t.fleet.history.empty}
              text={t.fleet.history.emptyText}
            />
          ) : (
            <Charts gpu={gpu} points={points} minutes={Number(chosen)} />
          )
        }
      </Loaded>
    </section>
  );
}

interface ChartsProps {
  gpu: MapGpu;
  points: HistoryPoint[];
  minutes: number;
}

const watts = (value: number | null) => `${integer(value)} W`;
const celsius = (value: number | null) => `${integer(value)} °C`;

function Charts({ gpu, points, minutes }: ChartsProps) {
  const words = t.fleet.history;
  const at = useMemo(() => points.map((p) => Date.parse(p.at) / 1000), [points]);
  const column = (pick: (p: HistoryPoint) => number | null) => [at, points.map(pick)];
  const end = Math.floor(Date.now() / 1000);
  const span: [number, number] = [end - minutes * 60, end];
  const measured = {
    utilisation: points.some((p) => p.utilisation !== null),
    temperature: points.some((p) => p.temperature_c !== null),
    power: points.some((p) => p.power_w !== null),
  };
  return (
    <div className={classes.charts}>
      <ChartPanel
        title={words.memory}
        hint={words.memoryHint}
        data={[at, points.map((p) => p.promised_bytes), points.map((p) => p.memory_used_bytes)]}
        span={span}
        format={bytes}
        steps={BINARY_STEPS}
        series={[
          { label: words.promised, color: "accent-2" },
          { label: words.used, color: "accent", kind: "area" },
        ]}
        limit={{ label: words.capacity(bytes(gpu.memory_measured_bytes)), value: gpu.memory_measured_bytes }}
      />
      {measured.utilisation ? (
        <ChartPanel
          title={words.utilisation}
          hint={words.utilisationHint}
          data={column((p) => p.utilisation)}
          span={span}
          format={percent}
          yMax={1}
          series={[{ label: words.utilisation, color: "accent", kind: "area" }]}
        />
      ) : (
        <p className="muted" data-testid="unmeasured-use">
          {t.fleet.device.unmeasuredUse}
        </p>
      )}
      {measured.temperature && (
        <ChartPanel
          title={words.temperature}
          data={column((p) => p.temperature_c)}
          span={span}
          format={celsius}
          series={[{ label: words.temperature, color: "late" }]}
        />
      )}
      {measured.power && (
        <ChartPanel
          title={words.power}
          data={column((p) => p.power_w)}
          span={span}
          format={watts}
          series={[{ label: words.power, color: "accent" }]}
        />
      )}
    </div>
  );
}
