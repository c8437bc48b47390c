import { Button } from "@mantine/core";
import { IconMessage } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { EmptyState } from "../../components/EmptyState";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import classes from "./Playground.module.css";
import { TurnView } from "./TurnView";
import type { Turn } from "./useChat";

interface Props {
  label: string;
  turns: Turn[];
  /** Whether there is anybody to talk to; undefined while that is being asked. */
  anybody: boolean | undefined;
  onAsk: ((text: string) => void) | undefined;
  regenerate: (() => void) | undefined;
}

const NEAR_END_PX = 80;

export function Conversation({ label, turns, anybody, onAsk, regenerate }: Props) {
  const view = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);

  // New text keeps a reader who is at the end there
  useEffect(() => {
    if (atEnd.current) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [turns]);

  const onScroll = () => {
    const v = view.current;
    if (v) atEnd.current = v.scrollHeight - v.scrollTop - v.clientHeight < NEAR_END_PX;
  };
  const last = turns.at(-1);
  return (
    <div ref={view} className={classes.turns} onScroll={onScroll} role="log" aria-label={label} tabIndex={0}>
      {turns.length === 0 && anybody !== undefined && <Start anybody={anybody} onAsk={onAsk} />}
      {turns.map((turn) => (
        <TurnView key={turn.id} turn={turn} regenerate={turn === last ? regenerate : undefined} />
      ))}
    </div>
  );
}

function Start({ anybody, onAsk }: { anybody: boolean; onAsk: Props["onAsk"] }) {
  const { current, canChange } = useScope();
  const words = t.playground;
  const icon = <IconMessage size={20} stroke={1.6} />;
  if (!anybody) {
    return (
      <EmptyState icon={icon} title={words.nothing} text={words.nothingText}>
        {canChange && (
          <Button component={Link} to={`/t/${current?.slug}/deployments?create=true`}>
            {t.deployments.create}
          </Button>
        )}
      </EmptyState>
    );
  }
  return (
    <EmptyState icon={icon} title={words.empty} text={words.emptyText}>
      <div className={classes.ideas}>
        {onAsk &&
          words.ideas.map((idea) => (
            <Button key={idea} variant="default" size="xs" onClick={() => onAsk(idea)}>
              {idea}
            </Button>
          ))}
      </div>
    </EmptyState>
  );
}
