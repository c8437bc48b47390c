import { say } from "../i18n";
import { StatePill } from "./StatePill";
import classes from "./StateReason.module.css";

interface Props {
  state: string;
  /** Why it is so, in the server's words; three lines of it, the whole on demand. */
  reason: string;
  note?: string | false;
}

/** A table's cell: a state, and why. */
export function StateReason({ state, reason, note }: Props) {
  return (
    <div className={classes.state}>
      <StatePill state={state} />
      {reason && (
        <span className={classes.reason} title={say(reason)}>
          {say(reason)}
        </span>
      )}
      {note && <span className={classes.reason}>{note}</span>}
    </div>
  );
}
