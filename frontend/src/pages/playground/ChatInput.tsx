import { ActionIcon, Textarea } from "@mantine/core";
import { IconArrowUp, IconPlayerStopFilled } from "@tabler/icons-react";
import { type KeyboardEvent, useState } from "react";
import { t } from "../../i18n";
import classes from "./Playground.module.css";

interface Props {
  busy: boolean;
  disabled: boolean;
  readOnly: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

/** Enter sends, Shift+Enter breaks the line; while an answer runs the button stops it. */
export function ChatInput({ busy, disabled, readOnly, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const words = t.playground;
  const send = () => {
    const said = text.trim();
    if (!said || busy || disabled) return;
    onSend(said);
    setText("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    }
  };
  return (
    <div className={classes.input}>
      <div className={classes.inputBox}>
        <Textarea
          aria-label={words.message}
          placeholder={readOnly ? words.viewer : words.placeholder}
          autosize
          minRows={1}
          maxRows={8}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          onKeyDown={onKeyDown}
          disabled={disabled}
          data-testid="message"
        />
        {busy ? (
          <ActionIcon size={36} variant="default" aria-label={words.stop} onClick={onStop} data-testid="stop">
            <IconPlayerStopFilled size={15} />
          </ActionIcon>
        ) : (
          <ActionIcon
            size={36}
            variant="filled"
            aria-label={words.send}
            onClick={send}
            disabled={disabled || !text.trim()}
            data-testid="send"
          >
            <IconArrowUp size={17} />
          </ActionIcon>
        )}
      </div>
    </div>
  );
}
