import { ActionIcon, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface Props {
  /** Names the object, for who does not see in which row the button stands. */
  label: string;
  width?: number;
  testId?: string;
  children: ReactNode;
}

/** What one may do to an object, behind three dots; the children are `Menu.Item`s. */
export function ObjectMenu({ label, width, testId, children }: Props) {
  return (
    <Menu width={width}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={label} data-testid={testId}>
          <IconDots size={16} stroke={1.6} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  );
}
