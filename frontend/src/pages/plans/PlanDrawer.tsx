import { Drawer } from "@mantine/core";
import type { Plan, PlanChange } from "../../api/fleet";
import { CopyId } from "../../components/CopyId";
import { type Fact, Facts } from "../../components/Facts";
import { Hint } from "../../components/Hint";
import { Loaded } from "../../components/Loaded";
import { TimeAgo } from "../../components/TimeAgo";
import { usePlan } from "../../hooks/usePlans";
import { say, t } from "../../i18n";
import { integer } from "../../lib/format";
import { inputName, inputText } from "../decisions/inputs";
import { PlanChanges, PlanPending } from "./PlanChanges";
import { PlanFigures } from "./PlanFigures";
import { PlanKind, PlanState } from "./PlanPills";
import classes from "./Plans.module.css";
import { PlanWaves } from "./PlanWaves";
import { PlanWays } from "./PlanWays";

/** One plan explained: what it does and why, what it is worth, how far it is, and from what it was made. */
export function PlanDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const plan = usePlan(id);
  return (
    <Drawer opened={id !== undefined} onClose={onClose} title={t.plans.one} size={560}>
      <Loaded query={plan}>{(found) => <Detail plan={found} />}</Loaded>
    </Drawer>
  );
}

function Detail({ plan }: { plan: Plan }) {
  const words = t.plans;
  const { left_out, ...given } = plan.inputs as Record<string, unknown>;
  const inputs = Object.entries(given).filter(([, value]) => value !== "");
  const leftOut = Array.isArray(left_out) ? (left_out as PlanChange[]) : [];
  return (
    <div className={classes.detail} data-testid="plan">
      <div>
        <div className={classes.head}>
          <PlanKind kind={plan.kind} />
          <PlanState plan={plan} />
          <span className={classes.note}>
            <TimeAgo at={plan.at} />
            {plan.count > 1 && (
              <>
                {" · "}
                {words.repeated(integer(plan.count))} <TimeAgo at={plan.last_at} />
              </>
            )}
          </span>
        </div>
        <p className={classes.why}>{say(plan.why)}</p>
      </div>
      <section>
        <h3>{words.sections.changes}</h3>
        <PlanChanges changes={plan.changes} reasons />
      </section>
      {leftOut.length > 0 && (
        <section>
          <h3>{words.sections.leftOut}</h3>
          <PlanChanges changes={leftOut} reasons />
        </section>
      )}
      <section>
        <h3>
          {words.sections.waves} <Hint text={words.waves.hint} />
        </h3>
        <PlanWaves plan={plan} />
      </section>
      <section>
        <h3>{words.sections.pending}</h3>
        <PlanPending pending={plan.pending} />
      </section>
      <section>
        <h3>{words.sections.figures}</h3>
        <PlanFigures plan={plan} />
      </section>
      <section>
        <h3>
          {words.sections.ways} <Hint text={words.ways.hint} />
        </h3>
        <PlanWays plan={plan} />
      </section>
      <section>
        <h3>{words.sections.inputs}</h3>
        <Facts
          rows={[
            ...inputs.map(
              ([name, value]): Fact => ({ label: inputName(name), value: inputText(name, value) }),
            ),
            { label: words.id, value: <CopyId id={plan.id} /> },
          ]}
        />
      </section>
    </div>
  );
}
