import { Link } from "@tanstack/react-router";
import type { Violations } from "../../api/types";
import { Hint } from "../../components/Hint";
import { Loaded } from "../../components/Loaded";
import { Meter } from "../../components/Meter";
import { Panel } from "../../components/Panel";
import type { Asked } from "../../components/StaleNotice";
import type { Looked } from "../../hooks/useAttainment";
import { useScope } from "../../hooks/useScope";
import { useUrl } from "../../hooks/useUrl";
import { t } from "../../i18n";
import { integer, percent } from "../../lib/format";
import classes from "./Slas.module.css";

const words = t.slas.attainment;

interface Props {
  title: string;
  hint?: string;
  asked: Asked<Violations>;
  looked: Looked;
}

/** Bad requests by one thing; each row leads to the requests behind it, over the same time. */
export function ViolationsPanel({ title, hint, asked, looked }: Props) {
  const total = asked.data?.total.bad;
  return (
    <Panel title={title} hint={hint} aside={total ? integer(total) : undefined}>
      <Loaded query={asked}>
        {({ rows, group }) =>
          rows.length === 0 ? (
            <p className={classes.none}>{words.none}</p>
          ) : (
            rows.map((row) => <Row key={row.key} row={row} group={group} looked={looked} />)
          )
        }
      </Loaded>
    </Panel>
  );
}

function Row({
  row,
  group,
  looked,
}: {
  row: Violations["rows"][number];
  group: Violations["group"];
  looked: Looked;
}) {
  const { current } = useScope();
  const { values } = useUrl();
  const reasons = t.reasons as Record<string, { label: string; hint: string }>;
  const reason = group === "reason" ? reasons[row.key] : undefined;
  const name = reason?.label ?? (row.label || row.key || words.unknown);
  return (
    <div className={classes.violation} data-testid={`violation-${row.key}`}>
      <span className={classes.violationName}>
        <Link
          className={classes.users}
          to="/t/$scope/requests"
          params={{ scope: current?.slug ?? "" }}
          aria-label={`${name}: ${words.see(integer(row.bad))}`}
          search={{
            deployment: looked.deployment,
            class: looked.class,
            range: values.range ?? (values.from ? undefined : "24h"),
            from: values.from,
            to: values.to,
            ...(group === "reason" ? { reason: row.key } : { verdict: "bad", [group]: row.key }),
          }}
        >
          {name}
        </Link>
        {reason && <Hint text={reason.hint} />}
      </span>
      <span className="num">
        {integer(row.bad)} <span className="muted">{words.of(percent(row.share))}</span>
      </span>
      <Meter value={row.share} tone="late" label={`${name}: ${percent(row.share)}`} />
    </div>
  );
}
