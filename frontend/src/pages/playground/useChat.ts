import { useCallback, useEffect, useRef, useState } from "react";
import { usePlaygroundToken } from "../../hooks/usePlaygroundToken";
import { ChatError, streamChat, type Verdict } from "../../lib/chat";
import { type Settings, toBody } from "./settings";

export type Status = "waiting" | "streaming" | "done" | "stopped" | "failed";

export interface Turn {
  id: number;
  role: "user" | "assistant";
  text: string;
  status: Status;
  verdict?: Verdict;
  tokens?: number;
  /** As this browser saw it: from the click to the first text. */
  seenTtftMs?: number;
  error?: string;
}

interface Target {
  tenant: string;
  model: string;
}

/** The conversation. Answers stream into the last turn; `stop` ends the one that runs. */
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
      const body = toBody(target.model, settings, history);
      let started = performance.now();
      const heard = {
        onText: (text: string) => {
          const now = performance.now();
          patch(id, (turn) => ({
            text: turn.text + text,
            status: "streaming",
            seenTtftMs: turn.seenTtftMs ?? now - started,
          }));
        },
        onVerdict: (verdict: Verdict) => patch(id, () => ({ verdict, tokens: verdict.tokens })),
        onUsage: (tokens: number) => patch(id, () => ({ tokens })),
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
        const message = error instanceof Error ? error.message : String(error);
        patch(id, () =>
          abort.signal.aborted ? { status: "stopped" } : { status: "failed", error: message },
        );
      } finally {
        if (running.current === abort) running.current = null;
      }
    },
    [patch, token],
  );

  const send = useCallback(
    (text: string, target: Target, settings: Settings) => {
      const user: Turn = { id: nextId.current++, role: "user", text, status: "done" };
      const reply: Turn = { id: nextId.current++, role: "assistant", text: "", status: "waiting" };
      const history = [...turns, user];
      setTurns([...history, reply]);
      void answer(target, settings, history, reply.id);
    },
    [turns, answer],
  );

  const stop = useCallback(() => running.current?.abort(), []);
  const clear = useCallback(() => {
    running.current?.abort();
    setTurns([]);
  }, []);
  const last = turns.at(-1);
  const busy = last?.status === "waiting" || last?.status === "streaming";
  return { turns, busy, send, stop, clear };
}
