import type { MapTotals } from "../../api/fleet";
import { StatTile, StatTiles } from "../../components/StatTile";
import { t } from "../../i18n";
import { bytes, integer, percent } from "../../lib/format";
import { Simulated } from "./Simulated";

/** The fleet in six figures. */
export function FleetTiles({ totals }: { totals: MapTotals | undefined }) {
  const words = t.fleet.totals;
  const loading = !totals;
  const sum = totals ?? EMPTY;
  const share = (part: number, whole: number) => percent(whole ? part / whole : null);
  const empty = sum.devices - sum.devices_in_use;
  const closed = sum.devices - sum.devices_taking_new;
  // Where any of the devices is not there, every figure about devices says so.
  const unit = sum.simulated > 0 ? <Simulated short /> : undefined;
  return (
    <StatTiles columns={6}>
      <StatTile
        loading={loading}
        label={words.nodes.label}
        hint={words.nodes.hint}
        value={`${integer(sum.nodes_connected)} / ${integer(sum.nodes)}`}
        tone={sum.nodes_connected < sum.nodes ? "warn" : undefined}
        unit={unit}
        detail={words.nodes.detail(integer(sum.devices), sum.devices)}
        testId="tile-nodes"
      />
      <StatTile
        loading={loading}
        label={words.devices.label}
        hint={words.devices.hint}
        value={`${integer(sum.devices_in_use)} / ${integer(sum.devices)}`}
        unit={unit}
        detail={
          closed > 0
            ? words.devices.closed(integer(empty), integer(closed))
            : words.devices.detail(integer(empty))
        }
        testId="tile-devices"
      />
      <StatTile
        loading={loading}
        label={words.units.label}
        hint={words.units.hint}
        value={`${integer(sum.units_free)} / ${integer(sum.units)}`}
        unit={unit}
        detail={words.units.detail(integer(sum.units_taken))}
        testId="tile-units"
      />
      <StatTile
        loading={loading}
        label={words.stranded.label}
        hint={words.stranded.hint}
        value={integer(sum.units_stranded)}
        tone={sum.units_stranded > 0 ? "warn" : undefined}
        unit={unit}
        detail={words.stranded.detail(integer(sum.units_blocked))}
        testId="tile-stranded"
      />
      <StatTile
        loading={loading}
        label={words.fragmentation.label}
        hint={words.fragmentation.hint}
        value={percent(sum.fragmentation)}
        unit={unit}
        detail={sum.fragmentation === null ? words.fragmentation.none : words.fragmentation.detail}
        testId="tile-fragmentation"
      />
      <StatTile
        loading={loading}
        label={words.promised.label}
        hint={words.promised.hint}
        value={bytes(sum.promised_bytes)}
        unit={unit}
        detail={words.promised.detail(
          share(sum.promised_bytes, sum.memory_bytes),
          bytes(sum.memory_used_bytes),
          bytes(sum.memory_measured_bytes),
        )}
        testId="tile-promised"
      />
    </StatTiles>
  );
}

const EMPTY: MapTotals = {
  nodes: 0,
  nodes_connected: 0,
  devices: 0,
  devices_in_use: 0,
  devices_taking_new: 0,
  simulated: 0,
  replicas: 0,
  fragmentation: null,
  units: 0,
  units_taken: 0,
  units_free: 0,
  units_stranded: 0,
  units_blocked: 0,
  memory_bytes: 0,
  promised_bytes: 0,
  memory_used_bytes: 0,
  memory_measured_bytes: 0,
};
