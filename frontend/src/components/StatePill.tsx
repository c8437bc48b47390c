import { t } from "../i18n";
import classes from "./StatePill.module.css";

const TONES: Record<string, string> = {
  ready: "good",
  running: "good",
  active: "good",
  good: "good",
  loading: "busy",
  placing: "busy",
  starting: "busy",
  draining: "busy",
  registering: "busy",
  degraded: "warn",
  waiting: "warn",
  late: "warn",
  invited: "busy",
  suspended: "warn",
  locked: "warn",
  warning: "warn",
  critical: "bad",
  lost: "bad",
  failed: "bad",
  revoked: "bad",
  expired: "idle",
  stopped: "idle",
};

/** A state as a word with a colour; the word alone is enough to understand it. */
export function StatePill({ state, label }: { state: string; label?: string }) {
  const words = t.states as Record<string, string>;
  return (
    <span className={classes.pill} data-tone={TONES[state] ?? "idle"} data-state={state}>
      <span className={classes.dot} aria-hidden="true" />
      {label ?? words[state] ?? state}
    </span>
  );
}
