import type { RequestLine } from "../../api/types";
import { t } from "../../i18n";

export const VERDICTS = ["good", "late", "error", "apart"] as const;
export type Verdict = (typeof VERDICTS)[number];

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
