import { ActionIcon, Loader, Tooltip } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { CopyButton } from "../../components/CopyButton";
import { t } from "../../i18n";
import { AnswerText } from "./AnswerText";
import { FailureView } from "./FailureView";
import classes from "./Playground.module.css";
import { TurnFigures } from "./TurnFigures";
import type { Turn } from "./useChat";

interface Props {
  turn: Turn;
  /** Asks again; only the last answer can be had anew. */
  regenerate: (() => void) | undefined;
}

export function TurnView({ turn, regenerate }: Props) {
  const words = t.playground;
  if (turn.role === "user") {
    return (
      <article className={classes.turn} data-role="user" data-testid="question">
        <h3 className={classes.who}>{words.you}</h3>
        <div className={classes.text}>{turn.text}</div>
      </article>
    );
  }
  const ended = turn.status !== "waiting" && turn.status !== "streaming";
  return (
    <article className={classes.turn} data-testid="answer" data-status={turn.status}>
      <div className={classes.turnHead}>
        <h3 className={classes.who}>{turn.target?.name ?? words.model}</h3>
        {ended && (
          <span className={classes.turnActions}>
            {turn.text && <CopyButton value={turn.text} label={words.copyAnswer} />}
            {regenerate && (
              <Tooltip label={words.regenerate}>
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  size="sm"
                  aria-label={words.regenerate}
                  onClick={regenerate}
                  data-testid="regenerate"
                >
                  <IconRefresh size={15} stroke={1.6} />
                </ActionIcon>
              </Tooltip>
            )}
          </span>
        )}
      </div>
      <div className={classes.answer} data-testid="answer-text">
        <AnswerText text={turn.text} streaming={turn.status === "streaming"} />
        {turn.status === "waiting" && <Loader size={14} type="dots" aria-label={words.waiting} />}
      </div>
      {turn.finish === "length" && <p className={classes.cut}>{words.cutAtLimit}</p>}
      {turn.failure && <FailureView failure={turn.failure} retry={regenerate} />}
      {turn.status !== "waiting" && !(turn.failure && !turn.text) && <TurnFigures turn={turn} />}
    </article>
  );
}
