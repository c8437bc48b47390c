import { Menu } from "@mantine/core";
import { IconBarrierBlock, IconCircleCheck, IconStethoscope } from "@tabler/icons-react";
import { useState } from "react";
import type { MapGpu } from "../../api/fleet";
import { ObjectMenu } from "../../components/ObjectMenu";
import { t } from "../../i18n";
import { GpuChange } from "./GpuChange";
import { GpuHealth } from "./GpuHealth";

const ICON = { size: 15, stroke: 1.6 };

/** What an operator may do to a GPU. A device of an unknown type has no health that is judged. */
export function GpuMenu({ gpu }: { gpu: MapGpu }) {
  const [opened, setOpened] = useState<"fence" | "clear" | "health" | null>(null);
  const words = t.fleet.health;
  if (!gpu.board) return null;
  const close = () => setOpened(null);
  return (
    <>
      <ObjectMenu label={words.menu(gpu.label, gpu.node.name)} width={220} testId="gpu-menu">
        <Menu.Item leftSection={<IconStethoscope {...ICON} />} onClick={() => setOpened("health")}>
          {words.open}
        </Menu.Item>
        {gpu.health !== "fenced" && (
          <Menu.Item
            color="red"
            leftSection={<IconBarrierBlock {...ICON} />}
            onClick={() => setOpened("fence")}
            data-testid="fence-gpu"
          >
            {words.fence}
          </Menu.Item>
        )}
        {gpu.health !== "healthy" && (
          <Menu.Item
            leftSection={<IconCircleCheck {...ICON} />}
            onClick={() => setOpened("clear")}
            data-testid="clear-gpu"
          >
            {words.clear}
          </Menu.Item>
        )}
      </ObjectMenu>
      {(opened === "fence" || opened === "clear") && <GpuChange gpu={gpu} verb={opened} onClose={close} />}
      {opened === "health" && <GpuHealth gpu={gpu} onClose={close} />}
    </>
  );
}
