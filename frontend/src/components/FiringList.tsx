import { Link } from "@tanstack/react-router";
import type { Alert } from "../api/types";
import { useScope } from "../hooks/useScope";
import { say, t } from "../i18n";
import classes from "./FiringList.module.css";
import { StatePill } from "./StatePill";
import { TimeAgo } from "./TimeAgo";

/** Where one looks further: a promise's figures, a deployment's events, a node, a tenant's capacity. */
function placeOf({ rule, subject }: Alert, scope: string): string {
  const at = `/t/${scope}`;
  if (rule.startsWith("sla.")) return `${at}/slas?deployment=${subject.id}`;
  if (rule === "contract.limit_near") return `${at}/slas?tab=contracts`;
  if (subject.kind === "node") return `${at}/fleet/${subject.id}`;
  if (subject.kind === "deployment") return `${at}/deployments/${subject.id}?tab=events`;
  return `${at}/deployments`;
}

/** What is wrong now, a line each, which leads to what it is about. */
export function FiringList({ alerts }: { alerts: Alert[] }) {
  const { current } = useScope();
  const scope = current?.slug ?? "";
  return (
    <ul className={classes.list}>
      {alerts.map((alert) => (
        <li key={alert.id} className={classes.alert}>
          <StatePill state={alert.severity} label={t.settings.routes.rules[alert.rule] ?? alert.title} />
          <Link className={classes.text} to={placeOf(alert, scope)}>
            {say(alert.summary)}
          </Link>
          <span className={classes.since}>
            {t.settings.firing.since} <TimeAgo at={alert.since} />
          </span>
        </li>
      ))}
    </ul>
  );
}
