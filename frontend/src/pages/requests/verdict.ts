import type { RequestLine } from "../../api/types";
import { t } from "../../i18n";

/** What the list can be asked for; no single request is `bad`, only late or an error. */
export const ASKED = ["good", "bad", "late", "error", "apart"] as const;
export type Verdict = Exclude<(typeof ASKED)[number], "bad">;

/** The colour that a verdict is drawn in, as a state has one. */
const STATES: Record<Verdict, string> = { good: "good", late: "late", error: "failed", apart: "stopped" };

export function stateOf(verdict: string): string {
  return STATES[verdict as Verdict] ?? "stopped";
}

/** The verdict, and the reason where there is one: `Late: queued`. */
export function verdictLabel({ verdict, reason }: Pick<RequestLine, "verdict" | "reason">): string {
  const name = t.requests.verdicts[verdict as Verdict] ?? verdict;
  const why = (t.reasons as Record<string, { label: string }>)[reason]?.label;
  return why ? t.requests.because(name, why) : name;
}
