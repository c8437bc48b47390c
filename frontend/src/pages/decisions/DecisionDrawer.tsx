import { Drawer } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Decision } from "../../api/fleet";
import { CopyId } from "../../components/CopyId";
import { type Fact, Facts } from "../../components/Facts";
import { Hint } from "../../components/Hint";
import { Loaded } from "../../components/Loaded";
import { TimeAgo } from "../../components/TimeAgo";
import { useDecision } from "../../hooks/useDecisions";
import { useMe } from "../../hooks/useMe";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { integer } from "../../lib/format";
import { Candidates } from "./Candidates";
import classes from "./Decisions.module.css";
import { inputName, inputText } from "./inputs";
import { KindPill } from "./KindPill";

/** One decision explained: what was chosen and why, from what, and every other candidate with why not. */
export function DecisionDrawer({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const decision = useDecision(id);
  return (
    <Drawer opened={id !== undefined} onClose={onClose} title={t.decisions.detail.title} size={520}>
      <Loaded query={decision}>{(found) => <Detail decision={found} />}</Loaded>
    </Drawer>
  );
}

function Detail({ decision }: { decision: Decision }) {
  const words = t.decisions.detail;
  const { inputs, chosen } = decision;
  const given = Object.entries(inputs as Record<string, unknown>);
  return (
    <div className={classes.detail} data-testid="decision">
      <div>
        <div className={classes.head}>
          <KindPill kind={decision.kind} />
          <span className={classes.sub}>
            <TimeAgo at={decision.at} />
            {decision.count > 1 && (
              <>
                {" · "}
                {words.repeated(integer(decision.count))} <TimeAgo at={decision.last_at} />
              </>
            )}
          </span>
        </div>
        <p className={classes.summary}>{say(decision.summary)}</p>
      </div>
      <section>
        <h3>{words.why}</h3>
        <p className={classes.whyText}>{say(decision.why)}</p>
      </section>
      <section>
        <h3>{words.chosen}</h3>
        <p className={classes.none}>{chosen ? `${chosen.node} · ${chosen.device}` : words.none}</p>
      </section>
      <section>
        <h3>
          {words.candidates} <Hint text={words.candidatesHint} />
        </h3>
        <Candidates decision={decision} />
      </section>
      <section>
        <h3>{words.inputs}</h3>
        {given.length === 0 ? (
          <p className={classes.none}>{words.noInputs}</p>
        ) : (
          <Facts
            rows={given.map(
              ([name, value]): Fact => ({ label: inputName(name), value: inputText(name, value) }),
            )}
          />
        )}
      </section>
      <About decision={decision} />
    </div>
  );
}

function About({ decision }: { decision: Decision }) {
  const { current } = useScope();
  const operator = useMe().data?.user.is_operator ?? false;
  const scope = current?.slug ?? "";
  const rows: Fact[] = [
    {
      label: t.decisions.columns.deployment,
      value: (
        <Link to="/t/$scope/deployments/$id" params={{ scope, id: decision.deployment }}>
          {decision.deployment_name}
        </Link>
      ),
    },
  ];
  if (decision.node) {
    const node = (
      <Link to="/t/$scope/fleet/$id" params={{ scope, id: decision.node }}>
        {decision.node_name}
      </Link>
    );
    rows.push({ label: t.decisions.columns.node, value: operator ? node : decision.node_name });
  }
  if (decision.replica)
    rows.push({ label: t.decisions.detail.replica, value: <CopyId id={decision.replica} /> });
  rows.push({ label: t.decisions.detail.id, value: <CopyId id={decision.id} /> });
  return <Facts rows={rows} />;
}
