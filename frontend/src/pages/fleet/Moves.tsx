import { Skeleton } from "@mantine/core";
import type { Node } from "../../api/fleet";
import { useFleetMap } from "../../hooks/useFleetMap";
import { say, t } from "../../i18n";
import { bytes } from "../../lib/format";
import classes from "./Fleet.module.css";
import { movesOf } from "./layout";

/** Before a node is drained: what leaves it, and whether there is room elsewhere now. */
export function Moves({ node }: { node: Node }) {
  const words = t.fleet.moves;
  const map = useFleetMap();
  if (!map.data) return <Skeleton height={60} mt="md" />;
  const moves = movesOf(node.id, map.data.gpus);
  if (moves.length === 0) return <p className={classes.quiet}>{words.none}</p>;
  const movable = moves.filter((move) => move.to).length;
  return (
    <section aria-label={words.title} data-testid="moves">
      <p className={`${classes.quiet} num`}>
        {words.summary(movable, moves.length)} {words.note}
      </p>
      <ul className={classes.moves}>
        {moves.map(({ seat, to }) => (
          <li key={seat.replica}>
            <span className="num">
              {seat.deployment_name} <span className="muted">{bytes(seat.memory_bytes)}</span>
            </span>
            <span className={to ? "muted" : classes.stuck}>
              {to ? words.to(to.node.name, `${to.index} · ${say(to.name)}`) : words.stuck}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
