import { Link } from "@tanstack/react-router";
import type { PlanLine } from "../../api/fleet";
import { Loaded } from "../../components/Loaded";
import { Panel } from "../../components/Panel";
import { TimeAgo } from "../../components/TimeAgo";
import { usePlan, usePlans } from "../../hooks/usePlans";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { decimal, percent } from "../../lib/format";
import { PlanChanges, PlanPending } from "../plans/PlanChanges";
import { PlanKind, PlanState } from "../plans/PlanPills";
import classes from "../plans/Plans.module.css";
import { Simulated } from "./Simulated";

const MOST = 4;

/** What the last plan that moved anything changed, and what the last look said. */
export function LastPlan({ simulated }: { simulated: boolean }) {
  const { current } = useScope();
  const words = t.plans.last;
  const looked = usePlans({ page_size: 1 });
  const moved = usePlans({ page_size: 1, kind: ["insert", "compact", "exact"] });
  const look = looked.data?.results[0];
  const last = moved.data?.results[0];

  const all = (
    <Link to="/t/$scope/plans" params={{ scope: current?.slug ?? "" }}>
      {words.all}
    </Link>
  );
  return (
    <div className={classes.last} data-testid="last-plan">
      <Panel title={words.title} hint={words.hint} aside={all}>
        <Loaded query={moved}>
          {({ results: [last] }) =>
            last ? <Shown line={last} simulated={simulated} /> : <p className={classes.none}>{words.none}</p>
          }
        </Loaded>
        {look && look.id !== last?.id && (
          <p className={classes.lastWhy}>
            <span className="muted">
              {words.look} <TimeAgo at={look.last_at} />
            </span>{" "}
            {say(look.why)}
          </p>
        )}
      </Panel>
    </div>
  );
}

function Shown({ line, simulated }: { line: PlanLine; simulated: boolean }) {
  const { current } = useScope();
  const whole = usePlan(line.id);
  const words = t.plans.last;
  return (
    <>
      <div className={`${classes.lastHead} num`}>
        <PlanKind kind={line.kind} />
        <PlanState plan={line} />
        <TimeAgo at={line.at} />
        <span>{words.figures(decimal(line.objective), decimal(line.bound), percent(line.gap))}</span>
        {simulated && <Simulated />}
        <Link
          to="/t/$scope/plans"
          params={{ scope: current?.slug ?? "" }}
          search={{ plan: line.id, range: "30d" }}
        >
          {words.open}
        </Link>
      </div>
      <p className={classes.lastWhy}>{say(line.why)}</p>
      {whole.data && (
        <div className={classes.lastBody}>
          <section>
            <h3>{t.plans.sections.changes}</h3>
            <PlanChanges changes={whole.data.changes} most={MOST} />
          </section>
          {whole.data.pending.length > 0 && (
            <section>
              <h3>{t.plans.sections.pending}</h3>
              <PlanPending pending={whole.data.pending} />
            </section>
          )}
        </div>
      )}
    </>
  );
}
