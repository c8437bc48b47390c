import { Link } from "@tanstack/react-router";
import type { Node } from "../../api/fleet";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { DevicePicture } from "./DevicePicture";
import { DrainProgress } from "./DrainProgress";
import classes from "./Fleet.module.css";
import type { ColourBy } from "./layout";
import { NodeFacts, NodePill } from "./NodeFacts";
import { NodeMenu } from "./NodeMenu";
import { nodeState } from "./nodeState";

interface Props {
  node: Node;
  nodes: Node[];
  by: ColourBy;
  colours: Map<string, number>;
}

/** One node and a picture of each of its devices. */
export function NodeCard({ node, nodes, by, colours }: Props) {
  const { current } = useScope();
  const devices = [...node.devices].sort((a, b) => a.index - b.index);
  return (
    <article className={classes.node} aria-label={node.name} data-testid="node" data-node={node.name}>
      <div className={classes.nodeHead}>
        <h2 className={classes.nodeName}>
          <Link to="/t/$scope/fleet/$id" params={{ scope: current?.slug ?? "", id: node.id }}>
            {node.name}
          </Link>
        </h2>
        <NodePill node={node} />
        <NodeFacts node={node} />
        <div className={classes.menu}>
          <NodeMenu node={node} nodes={nodes} />
        </div>
      </div>
      <div className={classes.nodeBody}>
        {nodeState(node) === "silent" && <p className={classes.notice}>{t.fleet.node.silentText}</p>}
        <DrainProgress node={node} />
        {devices.length === 0 ? (
          <p className={classes.quiet}>{t.fleet.node.noDevices}</p>
        ) : (
          <div className={classes.devices}>
            {devices.map((device) => (
              <DevicePicture key={device.id} device={device} by={by} colours={colours} />
            ))}
          </div>
        )}
      </div>
    </article>
  );
}
