import { Tooltip } from "@mantine/core";
import { StatePill } from "../../components/StatePill";
import { t } from "../../i18n";
import type { Verdict } from "../../lib/chat";
import { integer, milliseconds, percent } from "../../lib/format";
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
    words.limit(milliseconds(verdict.ttft_limit_ms)),
    words.fluidity(percent(verdict.fluidity)),
    words.queue(milliseconds(verdict.queue_ms)),
    words.prefill(milliseconds(verdict.prefill_ms)),
    words.decode(milliseconds(verdict.decode_ms)),
    words.cached(integer(verdict.cached_tokens)),
    verdict.request_id,
  ].join(" · ");
}

/** TTFT, TPOT, tokens and the verdict, by the gateway's clock; until it spoke, what this browser saw. */
export function TurnFigures({ turn }: { turn: Turn }) {
  const { verdict } = turn;
  const ttft = verdict?.ttft_ms ?? turn.seenTtftMs;
  return (
    <div className={`${classes.figures} num`} data-testid="answer-figures">
      {verdict && (
        <Tooltip label={breakdown(verdict)}>
          <span tabIndex={0} data-testid="verdict" data-good={verdict.good}>
            <StatePill state={verdict.good ? "good" : "late"} label={verdictLabel(verdict)} />
          </span>
        </Tooltip>
      )}
      {turn.status === "stopped" && <StatePill state="stopped" label={words.stopped} />}
      <span>
        TTFT <b data-testid="ttft">{milliseconds(ttft)}</b>
        {!verdict && ttft !== undefined && ` ${words.seenHere}`}
      </span>
      {verdict && (
        <span>
          TPOT <b data-testid="tpot">{milliseconds(verdict.tpot_ms)}</b>
        </span>
      )}
      {turn.tokens !== undefined && (
        <span>
          <b data-testid="tokens">{integer(turn.tokens)}</b> {words.tokens}
        </span>
      )}
    </div>
  );
}
