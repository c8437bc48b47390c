import { Link } from "@tanstack/react-router";
import { Hint } from "../../components/Hint";
import { Loading } from "../../components/Loaded";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import { useScope } from "../../hooks/useScope";
import { t } from "../../i18n";
import { integer } from "../../lib/format";
import type { Figures } from "../../live/types";
import classes from "./Rows.module.css";
import type { Range } from "./useFigures";

/** The requests' own page has no five minutes: the list begins with the newest. */
const SPANS: Record<Range, string> = { "5m": "15m", "1h": "1h", "24h": "24h" };

interface Props {
  loading: boolean;
  total: Figures;
  range?: Range;
  deployment?: string;
}

/** Every request that was not good has one reason; the bars add up to all of them. */
export function LateReasons({ loading, total, range = "1h", deployment }: Props) {
  const { current } = useScope();
  const rows = Object.entries(total.late)
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
  const all = rows.reduce((sum, [, n]) => sum + n, 0);
  const words = t.reasons as Record<string, { label: string; hint: string }>;
  return (
    <Panel title={t.overview.lateTitle} hint={t.overview.lateHint} aside={all ? integer(all) : undefined}>
      {loading && <Loading />}
      {!loading && rows.length === 0 && (
        <p className={classes.none}>{total.offered ? t.overview.noneLate : t.overview.noRequests}</p>
      )}
      {rows.map(([reason, n]) => (
        <div key={reason} className={classes.row} data-testid={`late-${reason}`}>
          <span className={classes.name}>
            <Link
              className={classes.link}
              to="/t/$scope/requests"
              params={{ scope: current?.slug ?? "" }}
              search={{ reason, deployment, range: SPANS[range] }}
            >
              {words[reason]?.label ?? reason}
            </Link>
            {words[reason] && <Hint text={words[reason].hint} />}
          </span>
          <span className={`${classes.value} num`}>{integer(n)}</span>
          <Meter value={n / all} tone="late" label={`${reason}: ${n}`} />
        </div>
      ))}
    </Panel>
  );
}
