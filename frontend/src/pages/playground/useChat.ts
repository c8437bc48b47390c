import { useCallback, useEffect, useRef, useState } from "react";
import { usePlaygroundToken } from "../../hooks/usePlaygroundToken";
import { ChatError, streamChat, type Verdict } from "../../lib/chat";
import { type Failure, failureOf } from "./failure";
import { type Settings, toBody } from "./settings";
import type { Target } from "./targets";

export type Status = "waiting" | "streaming" | "done" | "stopped" | "failed";

export interface Turn {
  id: number;
  role: "user" | "assistant";
  text: string;
  status: Status;
  /** Who answers, and by what it was promised: the column may be given to another later. */
  target?: Target;
  verdict?: Verdict;
  tokens?: number;
  finish?: string;
  /** As this browser saw it: from the click to the first text. */
  seenTtftMs?: number;
  failure?: Failure;
}

export type Chat = ReturnType<typeof useChat>;

/** One conversation. Answers stream into the last turn; `stop` ends the one that runs. */
export function useChat() {
  const token = usePlaygroundToken();
  const [turns, setTurns] = useState<Turn[]>([]);
  const running = useRef<AbortController | null>(null);
  const nextId = useRef(1);
  useEffect(() => () => running.current?.abort(), []);

  const patch = useCallback((id: number, change: (turn: Turn) => Partial<Turn>) => {
    setTurns((all) => all.map((turn) => (turn.id === id ? { ...turn, ...change(turn) } : turn)));
  }, []);

  const answer = useCallback(
    async (target: Target, settings: Settings, history: Turn[], id: number) => {
      const abort = new AbortController();
      running.current = abort;
      const body = toBody(target.name, settings, history);
      let started = performance.now();
      const heard = {
        onText: (text: string) => {
          const seen = performance.now() - started;
          patch(id, (turn) => ({
            text: turn.text + text,
            status: "streaming",
            seenTtftMs: turn.seenTtftMs ?? seen,
          }));
        },
        onVerdict: (verdict: Verdict) => patch(id, () => ({ verdict, tokens: verdict.tokens })),
        onUsage: (tokens: number) => patch(id, () => ({ tokens })),
        onFinish: (finish: string) => patch(id, () => ({ finish })),
      };
      try {
        for (const fresh of [false, true]) {
          const key = await token(target.tenant, fresh);
          started = performance.now();
          try {
            await streamChat(body, key, abort.signal, heard);
            break;
          } catch (error) {
            // The short-lived key ended or was revoked: one new key, one more try.
            if (fresh || !(error instanceof ChatError) || error.status !== 401) throw error;
          }
        }
        patch(id, () => ({ status: "done" }));
      } catch (error) {
        patch(id, () =>
          abort.signal.aborted ? { status: "stopped" } : { status: "failed", failure: failureOf(error) },
        );
      } finally {
        if (running.current === abort) running.current = null;
      }
    },
    [patch, token],
  );

  const reply = useCallback(
    (history: Turn[], target: Target, settings: Settings) => {
      const made: Turn = { id: nextId.current++, role: "assistant", text: "", status: "waiting", target };
      setTurns([...history, made]);
      void answer(target, settings, history, made.id);
    },
    [answer],
  );

  const send = useCallback(
    (text: string, target: Target, settings: Settings) => {
      const user: Turn = { id: nextId.current++, role: "user", text, status: "done" };
      reply([...turns, user], target, settings);
    },
    [turns, reply],
  );

  /** Asks the last question again; its answer takes the place of the one that is there. */
  const regenerate = useCallback(
    (target: Target, settings: Settings) => {
      const asked = turns.findLastIndex((turn) => turn.role === "user");
      if (asked >= 0) reply(turns.slice(0, asked + 1), target, settings);
    },
    [turns, reply],
  );

  const stop = useCallback(() => running.current?.abort(), []);
  const clear = useCallback(() => {
    running.current?.abort();
    setTurns([]);
  }, []);
  const last = turns.at(-1);
  const busy = last?.status === "waiting" || last?.status === "streaming";
  return { turns, busy, send, regenerate, stop, clear };
}
