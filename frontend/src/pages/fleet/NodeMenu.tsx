import { Menu } from "@mantine/core";
import {
  IconBarrierBlock,
  IconLockOpen,
  IconTopologyStar3,
  IconTransferOut,
  IconTrash,
} from "@tabler/icons-react";
import { useState } from "react";
import type { Node } from "../../api/fleet";
import { ObjectMenu } from "../../components/ObjectMenu";
import type { NodeVerb } from "../../hooks/useNodes";
import { t } from "../../i18n";
import { DomainModal } from "./DomainModal";
import { NodeChange } from "./NodeChange";

const ICON = { size: 15, stroke: 1.6 };

interface Props {
  node: Node;
  /** Something runs there. */
  taken: boolean;
  onRemoved?: () => void;
}

/** What an operator may do to a node. */
export function NodeMenu({ node, taken, onRemoved }: Props) {
  const [verb, setVerb] = useState<NodeVerb | "domain" | null>(null);
  const words = t.fleet.actions;
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
        <Menu.Item leftSection={<IconTopologyStar3 {...ICON} />} onClick={() => setVerb("domain")}>
          {words.domain}
        </Menu.Item>
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
      {verb === "domain" && <DomainModal node={node} onClose={() => setVerb(null)} />}
      {verb && verb !== "domain" && (
        <NodeChange node={node} verb={verb} onClose={() => setVerb(null)} onRemoved={onRemoved} />
      )}
    </>
  );
}
