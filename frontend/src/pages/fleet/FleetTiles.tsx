import type { Node } from "../../api/fleet";
import { StatTile, StatTiles } from "../../components/StatTile";
import { t } from "../../i18n";
import { bytes, integer, percent } from "../../lib/format";
import { totalsOf } from "./layout";

/** The fleet in four figures. */
export function FleetTiles({ nodes }: { nodes: Node[] | undefined }) {
  const words = t.fleet.totals;
  const sum = totalsOf(nodes ?? []);
  const loading = !nodes;
  const share = (part: number, whole: number) => percent(whole ? part / whole : null);
  const { hint: nodesHint, label: nodesLabel } = words.nodes;
  return (
    <StatTiles>
      <StatTile
        loading={loading}
        label={nodesLabel}
        hint={nodesHint}
        value={`${integer(sum.connected)} / ${integer(sum.nodes)}`}
        tone={sum.connected < sum.nodes ? "warn" : undefined}
        detail={words.nodes.detail(integer(sum.devices))}
        testId="tile-nodes"
      />
      <StatTile
        loading={loading}
        label={words.units.label}
        hint={words.units.hint}
        value={`${integer(sum.units - sum.unitsFree)} / ${integer(sum.units)}`}
        detail={words.units.detail(integer(sum.unitsFree))}
        testId="tile-units"
      />
      <StatTile
        loading={loading}
        label={words.promised.label}
        hint={words.promised.hint}
        value={bytes(sum.promised)}
        detail={words.promised.detail(share(sum.promised, sum.total))}
        testId="tile-promised"
      />
      <StatTile
        loading={loading}
        label={words.used.label}
        hint={words.used.hint}
        value={bytes(sum.used)}
        detail={words.used.detail(share(sum.used, sum.promised))}
        testId="tile-used"
      />
    </StatTiles>
  );
}
