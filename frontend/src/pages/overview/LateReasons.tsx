import { Hint } from "../../components/Hint";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import type { Figures } from "../../live/types";
import classes from "./Rows.module.css";

/** Every request that was not good has one reason; the bars add up to all of them. */
export function LateReasons({ total }: { total: Figures }) {
  const rows = Object.entries(total.late)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  const all = rows.reduce((sum, [, n]) => sum + n, 0);
  const words = t.reasons as Record<string, { label: string; hint: string }>;
  return (
    <Panel title={t.overview.lateTitle} hint={t.overview.lateHint} aside={all ? integer(all) : undefined}>
      {rows.length === 0 && (
        <p className={classes.none}>{total.offered ? t.overview.noneLate : t.overview.noRequests}</p>
      )}
      {rows.map(([reason, n]) => (
        <div key={reason} className={classes.row} data-testid={`late-${reason}`}>
          <span className={classes.name}>
            {words[reason]?.label ?? reason}
            {words[reason] && <Hint text={words[reason].hint} />}
          </span>
          <span className={`${classes.value} num`}>{integer(n)}</span>
          <Meter value={n / all} tone="late" label={`${reason}: ${n}`} />
        </div>
      ))}
    </Panel>
  );
}
