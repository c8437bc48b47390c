import { ActionIcon, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { type ReactNode, type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";

interface Props {
  /** Names the object, for who does not see in which row the button stands. */
  label: string;
  width?: number;
  testId?: string;
  children: ReactNode;
}

/** Tells the menu where a button stands that was there before it. */
function Standing({ at, ref }: { at: HTMLButtonElement; ref?: Ref<HTMLButtonElement> }) {
  useImperativeHandle(ref, () => at, [at]);
  return null;
}

/**
 * What one may do to an object, behind three dots; the children are `Menu.Item`s. The menu is made when it is first
 * opened: a table has one a row.
 */
export function ObjectMenu({ label, width, testId, children }: Props) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const [asked, setAsked] = useState(false);
  const [opened, setOpened] = useState(false);
  // Closed when it is made: it notes where the focus was when it opens, and gives it back
  useEffect(() => {
    if (asked) setOpened(true);
  }, [asked]);
  const toggle = () => (asked ? setOpened(!opened) : setAsked(true));
  return (
    <>
      <ActionIcon
        ref={button}
        id={id}
        variant="subtle"
        color="gray"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={opened}
        aria-controls={opened ? `${id}-dropdown` : undefined}
        data-expanded={opened || undefined}
        data-testid={testId}
        onClick={toggle}
      >
        <IconDots size={16} stroke={1.6} />
      </ActionIcon>
      {asked && button.current && (
        <Menu id={id} width={width} opened={opened} onChange={setOpened}>
          <Menu.Target>
            <Standing at={button.current} />
          </Menu.Target>
          <Menu.Dropdown>{children}</Menu.Dropdown>
        </Menu>
      )}
    </>
  );
}
