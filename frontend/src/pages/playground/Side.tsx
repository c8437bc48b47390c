import { ActionIcon, Select, Tooltip } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { ErrorState } from "../../components/ErrorState";
import { t } from "../../i18n";
import { classLine } from "../deployments/classLine";
import { Conversation } from "./Conversation";
import classes from "./Playground.module.css";
import { optionsOf, type Target } from "./targets";
import type { Chat } from "./useChat";

export type Letter = "A" | "B";

interface Props {
  /** Undefined where there is only one. */
  letter: Letter | undefined;
  /** On a phone only one of two is seen at a time. */
  shown: boolean;
  chat: Chat;
  target: Target | undefined;
  targets: Target[] | undefined;
  error: Error | null;
  retry: () => void;
  onTarget: (key: string) => void;
  onAsk: ((text: string) => void) | undefined;
  onRegenerate: (() => void) | undefined;
  onClose: (() => void) | undefined;
}

/** One conversation with whom it is held and what was promised there. */
export function Side({ letter, shown, chat, target, targets, error, retry, ...on }: Props) {
  const words = t.playground;
  const name = letter ? words.side(letter) : words.conversation;
  return (
    <section
      className={classes.sideBySide}
      aria-label={name}
      data-shown={shown}
      data-testid={letter ? `side-${letter}` : "side"}
    >
      <header className={classes.sideHead}>
        {letter && (
          <span className={classes.letter} aria-hidden="true">
            {letter}
          </span>
        )}
        <Select
          aria-label={letter ? words.deploymentOf(letter) : words.deployment}
          placeholder={words.choose}
          data={optionsOf(targets ?? [])}
          value={target?.key ?? null}
          onChange={(key) => key && on.onTarget(key)}
          allowDeselect={false}
          searchable={(targets?.length ?? 0) > 8}
          nothingFoundMessage={t.kit.filter.noMatch}
          w={250}
          miw={0}
          data-testid={letter === "B" ? "playground-right" : "playground-deployment"}
        />
        {target && (
          <span className={classes.promise} title={classLine(target.level)}>
            {classLine(target.level)}
          </span>
        )}
        {on.onClose && (
          <Tooltip label={words.compareEnd}>
            <ActionIcon
              variant="subtle"
              color="gray"
              ml="auto"
              aria-label={words.compareEnd}
              onClick={on.onClose}
              data-testid="compare-end"
            >
              <IconX size={16} stroke={1.6} />
            </ActionIcon>
          </Tooltip>
        )}
      </header>
      {error ? (
        <ErrorState error={error} retry={retry} />
      ) : (
        <Conversation
          label={name}
          turns={chat.turns}
          anybody={targets && targets.length > 0}
          onAsk={on.onAsk}
          regenerate={on.onRegenerate}
        />
      )}
    </section>
  );
}
