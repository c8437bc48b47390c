import { IconArrowRight, IconMinus, IconPlus } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { Plan, PlanChange } from "../../api/fleet";
import { useScope } from "../../hooks/useScope";
import { say, t } from "../../i18n";
import { decimal } from "../../lib/format";
import classes from "./Plans.module.css";
import { changeKind, changeText, inOrder } from "./spots";

const ICONS = { start: IconPlus, stop: IconMinus, move: IconArrowRight } as const;

interface Props {
  changes: PlanChange[];
  /** Of many, so many; how many more there are is said. */
  most?: number;
  /** With the reason of each. */
  reasons?: boolean;
}

/** Who goes where, and why. */
export function PlanChanges({ changes, most, reasons = false }: Props) {
  const shown = inOrder(changes).slice(0, most);
  const more = changes.length - shown.length;
  if (changes.length === 0) return <p className={classes.none}>{t.plans.noChanges}</p>;
  return (
    <>
      <ul className={classes.list} data-testid="plan-changes">
        {shown.map((change) => (
          <Change
            key={`${change.replica} ${change.to?.gpu ?? ""} ${change.to?.start ?? ""}`}
            change={change}
            reasons={reasons}
          />
        ))}
      </ul>
      {more > 0 && <p className={classes.none}>{t.plans.moreChanges(more)}</p>}
    </>
  );
}

function Change({ change, reasons }: { change: PlanChange; reasons: boolean }) {
  const kind = changeKind(change);
  const Icon = ICONS[kind];
  return (
    <li className={classes.row}>
      <Icon size={15} stroke={1.7} aria-label={t.plans.changeKinds[kind]} role="img" />
      <span className={classes.rowText}>
        <DeploymentLink id={change.deployment} name={change.deployment_name} />
        <span className="num">{changeText(change)}</span>
        {reasons && change.why && <span className={classes.note}>{say(change.why)}</span>}
      </span>
    </li>
  );
}

function DeploymentLink({ id, name }: { id: string; name: string }) {
  const { current } = useScope();
  return (
    <Link
      className={classes.name}
      to="/t/$scope/deployments/$id"
      params={{ scope: current?.slug ?? "", id }}
      search={{ tab: "replicas" }}
    >
      {name || id}
    </Link>
  );
}

/** What found no place, and why. */
export function PlanPending({ pending }: { pending: Plan["pending"] }) {
  if (pending.length === 0) return <p className={classes.none}>{t.plans.nonePending}</p>;
  return (
    <ul className={classes.list} data-testid="plan-pending">
      {pending.map((one, number) => (
        <li key={`${one.deployment} ${number}`} className={classes.row}>
          <span className={classes.rowText}>
            <DeploymentLink id={one.deployment} name={one.deployment_name} />
            {one.short > 0 && <span className="num">{t.plans.short(decimal(one.short))}</span>}
            <span className={classes.note}>{say(one.reason)}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}
