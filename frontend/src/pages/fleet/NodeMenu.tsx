import { Menu } from "@mantine/core";
import { IconBarrierBlock, IconLockOpen, IconTransferOut, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import type { Node } from "../../api/fleet";
import { ObjectMenu } from "../../components/ObjectMenu";
import type { NodeVerb } from "../../hooks/useNodes";
import { t } from "../../i18n";
import { NodeChange } from "./NodeChange";

const ICON = { size: 15, stroke: 1.6 };

interface Props {
  node: Node;
  nodes: Node[];
  onRemoved?: () => void;
}

/** What an operator may do to a node. */
export function NodeMenu({ node, nodes, onRemoved }: Props) {
  const [verb, setVerb] = useState<NodeVerb | null>(null);
  const words = t.fleet.actions;
  const taken = node.devices.some((device) => device.seats.length > 0);
  return (
    <>
      <ObjectMenu label={words.menu(node.name)} width={200} testId="node-menu">
        {node.cordoned ? (
          <Menu.Item leftSection={<IconLockOpen {...ICON} />} onClick={() => setVerb("uncordon")}>
            {words.uncordon}
          </Menu.Item>
        ) : (
          <Menu.Item leftSection={<IconBarrierBlock {...ICON} />} onClick={() => setVerb("cordon")}>
            {words.cordon}
          </Menu.Item>
        )}
        {!node.drain && (
          <Menu.Item
            leftSection={<IconTransferOut {...ICON} />}
            onClick={() => setVerb("drain")}
            data-testid="drain-node"
          >
            {words.drain}
          </Menu.Item>
        )}
        <Menu.Divider />
        <Menu.Item
          color="red"
          disabled={taken}
          leftSection={<IconTrash {...ICON} />}
          onClick={() => setVerb("remove")}
        >
          {taken ? words.drainFirst : words.remove}
        </Menu.Item>
      </ObjectMenu>
      {verb && (
        <NodeChange
          node={node}
          nodes={nodes}
          verb={verb}
          onClose={() => setVerb(null)}
          onRemoved={onRemoved}
        />
      )}
    </>
  );
}
