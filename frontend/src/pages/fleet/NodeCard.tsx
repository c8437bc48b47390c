import { Skeleton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { MapGpu, Node } from "../../api/fleet";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { DrainProgress } from "./DrainProgress";
import classes from "./Fleet.module.css";
import { NodeFacts, NodePill } from "./NodeFacts";
import { NodeMenu } from "./NodeMenu";
import { nodeState } from "./nodeState";

interface Props {
  node: Node;
  /** undefined while the picture is on its way. */
  gpus: MapGpu[] | undefined;
  picture: (gpu: MapGpu) => ReactNode;
}

/** One node and a picture of each of its devices. */
export function NodeCard({ node, gpus, picture }: Props) {
  const { current } = useScope();
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
        <div className={classes.nodeMenu}>
          <NodeMenu node={node} />
        </div>
      </div>
      <div className={classes.nodeBody}>
        {nodeState(node) === "silent" && <p className={classes.notice}>{t.fleet.node.silentText}</p>}
        <DrainProgress node={node} />
        {gpus?.length === 0 && <p className={classes.quiet}>{t.fleet.node.noDevices}</p>}
        <div className={classes.devices}>{gpus ? gpus.map(picture) : <Skeleton height={120} />}</div>
      </div>
    </article>
  );
}
