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
import type { Target } from "./useTargets";

interface Props {
  turns: Turn[];
  tenant: string | undefined;
  targets: Target[] | undefined;
  onAsk: ((text: string) => void) | undefined;
}

const NEAR_END_PX = 80;

export function Conversation({ turns, tenant, targets, onAsk }: Props) {
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
  return (
    <div
      ref={view}
      className={classes.turns}
      onScroll={onScroll}
      role="log"
      aria-label={t.playground.conversation}
    >
      {turns.length === 0 && <Start tenant={tenant} targets={targets} onAsk={onAsk} />}
      {turns.map((turn) => (
        <TurnView key={turn.id} turn={turn} />
      ))}
    </div>
  );
}

function Start({ tenant, targets, onAsk }: Omit<Props, "turns">) {
  const { current } = useScope();
  const words = t.playground;
  const icon = <IconMessage size={20} stroke={1.6} />;
  if (!tenant) return <EmptyState icon={icon} title={words.chooseTenant} text={words.chooseTenantText} />;
  if (targets?.length === 0) {
    return (
      <EmptyState icon={icon} title={words.nothing} text={words.nothingText}>
        <Button component={Link} to={`/t/${current?.slug}/deployments?create=true`}>
          {t.deployments.create}
        </Button>
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
