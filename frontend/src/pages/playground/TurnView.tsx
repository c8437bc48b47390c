import { Loader } from "@mantine/core";
import { t } from "../../i18n";
import classes from "./Playground.module.css";
import { TurnFigures } from "./TurnFigures";
import type { Turn } from "./useChat";

export function TurnView({ turn }: { turn: Turn }) {
  const mine = turn.role === "user";
  return (
    <article className={classes.turn} data-testid={mine ? "question" : "answer"} data-status={turn.status}>
      <div className={classes.who}>{mine ? t.playground.you : t.playground.model}</div>
      <div className={classes.text} data-testid={mine ? undefined : "answer-text"}>
        {turn.text}
        {turn.status === "waiting" && <Loader size={14} type="dots" aria-label={t.playground.waiting} />}
        {turn.status === "streaming" && <span className={classes.caret} aria-hidden="true" />}
      </div>
      {turn.error && (
        <p className={classes.error} role="alert">
          {turn.error}
        </p>
      )}
      {!mine && turn.status !== "waiting" && <TurnFigures turn={turn} />}
    </article>
  );
}
