import { Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Meter } from "../../components/Meter";
import { StatePill } from "../../components/StatePill";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import type { Verdict } from "../../lib/chat";
import { decimal, integer, milliseconds, percent } from "../../lib/format";
import classes from "./Playground.module.css";
import type { Turn } from "./useChat";

const words = t.playground.figures;

function verdictLabel(verdict: Verdict): string {
  const reasons = t.reasons as Record<string, { label: string }>;
  if (verdict.good) return words.good;
  return verdict.reason ? words.late(reasons[verdict.reason]?.label ?? verdict.reason) : words.notJudged;
}

/** Where the time went, for who asks why an answer was late. */
function breakdown(verdict: Verdict): string {
  return [
    words.fluidity(percent(verdict.fluidity)),
    words.queue(milliseconds(verdict.queue_ms)),
    words.prefill(milliseconds(verdict.prefill_ms)),
    words.decode(milliseconds(verdict.decode_ms)),
    words.cached(integer(verdict.cached_tokens)),
  ].join(" · ");
}

interface AgainstProps {
  name: string;
  hint: string;
  value: number | null | undefined;
  limit: number | null | undefined;
  testId: string;
  note?: string;
}

/** One figure and how much of what was promised it took. */
function Against({ name, hint, value, limit, testId, note }: AgainstProps) {
  const share = value !== null && value !== undefined && limit ? value / limit : null;
  return (
    <div>
      <div className={classes.againstLine}>
        <Tooltip label={hint}>
          <span tabIndex={0}>{name}</span>
        </Tooltip>
        <b data-testid={testId}>{milliseconds(value)}</b>
        <span>{note ?? (limit ? words.ofPromise(milliseconds(limit)) : words.noPromise)}</span>
      </div>
      <Meter
        value={share ?? 0}
        tone={share !== null && share > 1 ? "late" : "good"}
        label={words.shareOf(name, percent(share))}
      />
    </div>
  );
}

/** TTFT, TPOT, tokens and the verdict, by the gateway's clock; until it spoke, what this browser saw. */
export function TurnFigures({ turn }: { turn: Turn }) {
  const { current } = useScope();
  const { verdict } = turn;
  const level = turn.target?.level;
  const decodeS = verdict?.tpot_ms ? verdict.tpot_ms / 1000 : null;
  return (
    <div className={`${classes.figures} num`} data-testid="answer-figures">
      <div className={classes.againstRow}>
        <Against
          name="TTFT"
          hint={words.ttftHint}
          testId="ttft"
          value={verdict?.ttft_ms ?? turn.seenTtftMs}
          limit={verdict?.ttft_limit_ms ?? (verdict ? null : level?.base_ms)}
          note={verdict ? undefined : words.seenHere}
        />
        {verdict && (
          <Against
            name="TPOT"
            hint={words.tpotHint}
            testId="tpot"
            value={verdict.tpot_ms}
            limit={level?.tpot_ms}
          />
        )}
      </div>
      <div className={classes.facts}>
        {verdict && (
          <Tooltip label={breakdown(verdict)}>
            <span tabIndex={0} data-testid="verdict" data-good={verdict.good}>
              <StatePill state={verdict.good ? "good" : "late"} label={verdictLabel(verdict)} />
            </span>
          </Tooltip>
        )}
        {turn.status === "stopped" && <StatePill state="stopped" label={words.stopped} />}
        {turn.tokens !== undefined && (
          <span>
            <b data-testid="tokens">{integer(turn.tokens)}</b> {words.tokens}
          </span>
        )}
        {verdict?.fluidity != null && level && verdict.fluidity < level.fluidity_floor && (
          <span className={classes.missed}>
            {words.belowFloor(percent(verdict.fluidity), percent(level.fluidity_floor))}
          </span>
        )}
        {decodeS !== null && (
          <span>
            <b>{decimal(1 / decodeS)}</b> {words.perSecond}
          </span>
        )}
        {verdict && (
          <Link
            className={classes.explain}
            to="/t/$scope/requests/$id"
            params={{ scope: current?.slug ?? "", id: verdict.request_id }}
          >
            {words.explain}
          </Link>
        )}
      </div>
    </div>
  );
}
