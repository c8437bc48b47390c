import { Skeleton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { memo, type ReactNode } from "react";
import type { MapGpu, Node } from "../../api/fleet";
import { useNear } from "../../hooks/useNear";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { DrainProgress } from "./DrainProgress";
import classes from "./Fleet.module.css";
import { seatsOf } from "./layout";
import { NodeFacts, NodePill } from "./NodeFacts";
import { NodeMenu } from "./NodeMenu";
import { nodeState } from "./nodeState";

/** In px, for devices that are on their way: about four rows of them, so that few nodes are near a screen. */
const UNKNOWN = 620;

interface Props {
  node: Node;
  /** undefined while the picture is on its way. */
  gpus: MapGpu[] | undefined;
  picture: (gpu: MapGpu) => ReactNode;
  /** Of the first ones: there is no need to find out. */
  near: boolean;
}

/** One node and a picture of each of its devices; of what is far from the screen only the name, and the room it takes. */
export const NodeCard = memo(function NodeCard({ node, gpus, picture, near: atFirst }: Props) {
  const { current } = useScope();
  const { ref, near } = useNear<HTMLElement>(atFirst);
  return (
    <article
      ref={ref}
      className={classes.node}
      aria-label={node.name}
      data-testid="node"
      data-node={node.name}
    >
      <div className={classes.nodeHead}>
        <h2 className={classes.nodeName}>
          <Link to="/t/$scope/fleet/$id" params={{ scope: current?.slug ?? "", id: node.id }}>
            {node.name}
          </Link>
        </h2>
        {near && <Head node={node} gpus={gpus} />}
      </div>
      <div className={classes.nodeBody}>
        {near ? (
          <Body node={node} gpus={gpus} picture={picture} />
        ) : (
          <div className={classes.devices}>
            {gpus ? (
              gpus.map((gpu) => <div key={gpu.id} className={classes.place} />)
            ) : (
              <Skeleton height={UNKNOWN} />
            )}
          </div>
        )}
      </div>
    </article>
  );
});

function Head({ node, gpus }: Pick<Props, "node" | "gpus">) {
  const taken = gpus?.some((gpu) => seatsOf(gpu).length > 0) ?? true;
  return (
    <>
      <NodePill node={node} />
      <NodeFacts node={node} />
      <div className={classes.nodeMenu}>
        <NodeMenu node={node} taken={taken} />
      </div>
    </>
  );
}

function Body({ node, gpus, picture }: Omit<Props, "near">) {
  return (
    <>
      {nodeState(node) === "silent" && <p className={classes.notice}>{t.fleet.node.silentText}</p>}
      <DrainProgress node={node} />
      {gpus?.length === 0 && <p className={classes.quiet}>{t.fleet.node.noDevices}</p>}
      <div className={classes.devices}>{gpus ? gpus.map(picture) : <Skeleton height={UNKNOWN} />}</div>
    </>
  );
}
