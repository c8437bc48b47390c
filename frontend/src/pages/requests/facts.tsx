import { Link } from "@tanstack/react-router";
import type { ExplainedRequest } from "../../api/types";
import { CopyId } from "../../components/CopyId";
import type { Fact } from "../../components/Facts";
import { StatePill } from "../../components/StatePill";
import { say, t } from "../../i18n";
import { integer, NONE, percent } from "../../lib/format";
import { cost } from "../../lib/money";
import { classLine } from "../deployments/classLine";
import { Against } from "./Against";
import classes from "./Requests.module.css";

const words = t.requests.one;
const fact = words.facts;

/** What was asked and delivered, for whom and by which promise. */
export function factsOf(request: ExplainedRequest, scope: string): Fact[] {
  const { summary, record, promised } = request;
  return [
    {
      label: fact.deployment,
      value: (
        <Link
          className={classes.link}
          to="/t/$scope/deployments/$id"
          params={{ scope, id: summary.deployment }}
        >
          {summary.deployment_name}
        </Link>
      ),
    },
    { label: fact.tenant, value: summary.tenant_name || summary.tenant },
    {
      label: fact.contract,
      value: (
        <>
          <Link
            className={classes.link}
            to="/t/$scope/slas"
            params={{ scope }}
            search={{ tab: "contracts", contract: summary.contract }}
          >
            {words.version(summary.class_name, summary.contract_version)}
          </Link>
          {promised && <div className={classes.under}>{classLine(promised)}</div>}
        </>
      ),
    },
    { label: fact.key, value: summary.key_name || summary.key || NONE, hint: fact.keyHint },
    { label: fact.member, value: summary.member_name || summary.member || NONE },
    { label: fact.ttft, value: <Against value={summary.ttft_ms} limit={summary.ttft_limit_ms} /> },
    { label: fact.tpot, value: <Against value={summary.tpot_ms} limit={summary.tpot_limit_ms} /> },
    {
      label: fact.fluidity,
      value: words.floor(percent(record.fluidity), percent(record.fluidity_floor)),
      hint: t.slas.classes.facts.fluidity.hint,
    },
    {
      label: fact.tokens,
      value: words.tokens(
        integer(record.prompt_tokens),
        integer(record.cached_tokens),
        integer(record.completion_tokens),
      ),
    },
    { label: fact.preemptions, value: integer(record.preemptions), hint: fact.preemptionsHint },
    {
      label: fact.outcome,
      value: `${t.requests.outcomes[summary.outcome] ?? summary.outcome} (${summary.status})`,
    },
    { label: fact.cost, value: cost(summary.cost, promised?.currency ?? "") },
    { label: fact.compatible, value: record.compatible ? t.kit.yes : t.kit.no, hint: fact.compatibleHint },
  ];
}

/** Node, device and part of it, each as the fleet's page calls it. */
function placeWords(place: string): string {
  return place
    ? place
        .split(" / ")
        .map((part) => (part === "share" ? words.shared : say(part)))
        .join(" / ")
    : NONE;
}

/** Which replica, on what, and the decision that placed it there. */
export function whereOf({ where, summary }: ExplainedRequest, scope: string): Fact[] {
  if (!where.replica) return [{ label: fact.replica, value: words.nowhere }];
  return [
    {
      label: fact.replica,
      value: (
        <span className={classes.replica}>
          <CopyId id={where.replica} short />
          {where.state && <StatePill state={where.state} />}
        </span>
      ),
    },
    { label: fact.place, value: placeWords(where.place) },
    { label: fact.slice, value: where.slice ? <CopyId id={where.slice} short /> : NONE },
    {
      label: fact.more,
      value: (
        <span className={classes.links}>
          <Link
            className={classes.link}
            to="/t/$scope/deployments/$id"
            params={{ scope, id: summary.deployment }}
            search={{ tab: "logs", replica: where.replica }}
          >
            {words.logs}
          </Link>
          <Link
            className={classes.link}
            to="/t/$scope/decisions"
            params={{ scope }}
            search={{ replica: where.replica, deployment: summary.deployment }}
          >
            {words.decision}
          </Link>
          <Link
            className={classes.link}
            to="/t/$scope/requests"
            params={{ scope }}
            search={{ replica: where.replica }}
          >
            {words.neighbours}
          </Link>
        </span>
      ),
    },
  ];
}

/** What else went on at the replica. */
export function meanwhileOf({ meanwhile }: ExplainedRequest): Fact[] {
  return [
    { label: fact.running, value: integer(meanwhile.running_at_arrival) },
    { label: fact.queued, value: integer(meanwhile.queued_at_arrival) },
    { label: fact.beside, value: integer(meanwhile.requests) },
    { label: fact.ofTenant, value: integer(meanwhile.of_tenant) },
    { label: fact.read, value: integer(meanwhile.new_prompt_tokens) },
  ];
}
