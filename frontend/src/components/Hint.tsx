import { Tooltip, UnstyledButton } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import classes from "./Hint.module.css";

/** How a number is made; reachable by pointer, touch and keyboard. */
export function Hint({ text }: { text: string }) {
  return (
    <Tooltip label={text}>
      <UnstyledButton className={classes.hint} aria-label={text}>
        <IconInfoCircle size={14} stroke={1.6} aria-hidden="true" />
      </UnstyledButton>
    </Tooltip>
  );
}
