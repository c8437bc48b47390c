"""The conditions, each a function of what is in the database at one moment.

Burn rate = (1 - attainment) / (1 - target): at 1 the error budget lasts exactly as long as it is meant to. An alert
asks for a high rate in a long window, so that it matters, and in a short one, so that it is still so (The Site
Reliability Workbook, chapter 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, Sum

from berth.alerts import figures
from berth.alerts.conditions import Condition
from berth.alerts.figures import Counts
from berth.alerts.models import Rule, Severity
from berth.alerts.thresholds import Thresholds
from berth.deployments.models import Deployment, Replica, ReplicaState
from berth.fleet.health import faults_of
from berth.fleet.models import Gpu, Health, Node, Seat
from berth.slas.models import Contract
from berth.slas.selectors import in_force
from berth.tenants.models import CapacityQuota

HOLD_NODE = timedelta(seconds=20)
CRASH_WINDOW = timedelta(hours=1)
LIMIT_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class _Burn:
    rule: Rule
    severity: Severity
    windows: tuple[str, str]
    factor: float


def evaluate(now: datetime, limits: Thresholds) -> list[Condition]:
    """Everything that holds at ``now``."""
    found: list[Condition] = []
    contracts = _contracts(now)
    found += _burns(contracts, figures.recent_counts(now), limits)
    found += _budgets(contracts, figures.budget_counts(now, limits.budget_days), limits)
    found += _limits(contracts, figures.use_since(now - LIMIT_WINDOW), limits)
    found += _quotas(limits)
    found += _crashes(now, limits)
    found += _silent_nodes(now, limits)
    found += _unhealthy_gpus()
    return found


def _contracts(now: datetime) -> list[Contract]:
    """Those in force."""
    rows = in_force(Contract.objects.for_platform(), now).filter(tenant__suspended_at=None)
    return list(rows.select_related("tenant", "deployment", "service_class"))


def _burns(
    contracts: list[Contract], counts: Mapping[str, Mapping[tuple[str, str], Counts]], limits: Thresholds
) -> Iterator[Condition]:
    burns = (
        _Burn(Rule.SLA_BURN_FAST, Severity.CRITICAL, ("1h", "5m"), limits.burn_fast),
        _Burn(Rule.SLA_BURN_SLOW, Severity.WARNING, ("6h", "30m"), limits.burn_slow),
    )
    for contract in contracts:
        cell = (contract.tenant_id, contract.deployment_id)
        budget = 1 - contract.level().attainment_target
        if budget <= 0:
            continue
        for burn in burns:
            seen = [counts[window].get(cell, Counts()) for window in burn.windows]
            rates = [one.missed / budget for one in seen]
            enough = seen[0].offered >= limits.least_requests and seen[1].offered > 0
            if enough and min(rates) >= burn.factor:
                name = _name(contract)
                long, short = burn.windows
                yield _of_contract(
                    contract,
                    burn.rule,
                    burn.severity,
                    f"{name}: {seen[0].attainment:.1%} of {seen[0].offered} requests in {long} kept their promise, "
                    f"{budget_words(contract)}; the budget burns {rates[0]:.1f} times as fast as it may "
                    f"({rates[1]:.1f} in the last {short})",
                    {
                        f"burn_{long}": round(rates[0], 2),
                        f"burn_{short}": round(rates[1], 2),
                        "threshold": burn.factor,
                        "offered": seen[0].offered,
                        "good": seen[0].good,
                        "reasons": dict(seen[0].reasons),
                    },
                )


def _budgets(
    contracts: list[Contract], counts: Mapping[tuple[str, str], Counts], limits: Thresholds
) -> Iterator[Condition]:
    for contract in contracts:
        seen = counts.get((contract.tenant_id, contract.deployment_id), Counts())
        budget = 1 - contract.level().attainment_target
        if seen.offered < limits.least_requests or budget <= 0:
            continue
        left = 1 - seen.missed / budget
        if left <= 1 - limits.near:
            spent = "is spent" if left <= 0 else f"has {left:.0%} left"
            yield _of_contract(
                contract,
                Rule.BUDGET_NEAR,
                Severity.WARNING,
                f"{_name(contract)}: the error budget of {limits.budget_days} days {spent} "
                f"({seen.attainment:.2%} good, {budget_words(contract)})",
                {"budget_left": round(left, 4), "threshold": round(1 - limits.near, 4), "offered": seen.offered},
            )


def _limits(
    contracts: list[Contract], used: Mapping[tuple[str, str], figures.Use], limits: Thresholds
) -> Iterator[Condition]:
    minutes = LIMIT_WINDOW.total_seconds() / 60
    for contract in contracts:
        use = used.get((contract.tenant_id, contract.deployment_id))
        if use is None:
            continue
        shares = {
            "requests": _share(use.requests / minutes, most(contract, "requests")),
            "tokens": _share(use.tokens / minutes, most(contract, "tokens")),
        }
        what, share = max(shares.items(), key=lambda pair: pair[1])
        if share < limits.near and not use.refused:
            continue
        told = f"{share:.0%} of the {what} a minute are used" if share else "its limit was reached"
        if use.refused:
            told = f"{told}; {use.refused} requests were refused"
        yield _of_contract(
            contract,
            Rule.LIMIT_NEAR,
            Severity.WARNING,
            f"{_name(contract)}: {told} in the last {minutes:g} minutes",
            {"share": round(share, 3), "refused": use.refused, "threshold": limits.near},
        )


def most(contract: Contract, what: str) -> int | None:
    """The most a minute that passes: guaranteed and burst."""
    guaranteed: int | None = getattr(contract, f"guaranteed_{what}_per_min")
    return None if guaranteed is None else guaranteed + getattr(contract, f"burst_{what}_per_min")


def _quotas(limits: Thresholds) -> Iterator[Condition]:
    seats = Seat.objects.values("replica__tenant_id").annotate(held=Sum("memory_bytes")).order_by()
    held = {row["replica__tenant_id"]: row["held"] for row in seats}
    for quota in CapacityQuota.objects.select_related("tenant"):
        allowed, used = quota.guaranteed_bytes + quota.burst_bytes, held.get(quota.tenant_id, 0)
        if allowed and used >= limits.near * allowed:
            yield Condition(
                rule=Rule.QUOTA_NEAR,
                severity=Severity.WARNING,
                subject=quota.tenant_id,
                subject_kind="tenant",
                subject_id=quota.tenant_id,
                subject_name=quota.tenant.slug,
                summary=f"{quota.tenant.name} reserves {_gib(used)} of its {_gib(allowed)} ({used / allowed:.0%})",
                tenant_id=quota.tenant_id,
                values={"used_bytes": used, "allowed_bytes": allowed, "threshold": limits.near},
            )


def _crashes(now: datetime, limits: Thresholds) -> Iterator[Condition]:
    """Replicas given up within the hour, and restarts of those that live."""
    failed = Count("replicas", filter=Q(replicas__state=ReplicaState.FAILED, replicas__ended_at__gt=now - CRASH_WINDOW))
    restarts = Sum("replicas__restarts", filter=Q(replicas__ended_at=None), default=0)
    rows: Any = Deployment.objects.for_platform().annotate(failed=failed, restarts=restarts).select_related("tenant")
    for row in rows.filter(Q(failed__gt=0) | Q(restarts__gt=0)):
        crashes = row.failed + row.restarts
        if crashes < limits.crashes:
            continue
        yield Condition(
            rule=Rule.CRASH_LOOP,
            severity=Severity.CRITICAL,
            subject=row.id,
            subject_kind="deployment",
            subject_id=row.id,
            subject_name=row.name,
            summary=". ".join([f"{row.name}: its replicas crashed {crashes} times lately", *_last_reason(row)]),
            tenant_id=row.tenant_id,
            values={"crashes": crashes, "threshold": limits.crashes},
        )


def _last_reason(deployment: Deployment) -> list[str]:
    troubled = Replica.objects.for_platform().filter(deployment=deployment).exclude(reason="")
    latest = troubled.filter(Q(state=ReplicaState.FAILED) | Q(restarts__gt=0)).order_by("-id").first()
    return [f"The last: {latest.reason}"] if latest is not None else []


def _silent_nodes(now: datetime, limits: Thresholds) -> Iterator[Condition]:
    """A node is new until its agent has spoken. The pause tells a silent node from a web process that was away."""
    silent = Node.objects.filter(last_seen_at__lt=now - timedelta(seconds=limits.node_silent_s))
    for node in silent.annotate(live=Count("replicas", filter=Q(replicas__ended_at=None))):
        yield Condition(
            rule=Rule.NODE_LOST,
            severity=Severity.CRITICAL,
            subject=node.id,
            subject_kind="node",
            subject_id=node.id,
            subject_name=node.name,
            summary=f"Node {node.name} has said nothing since {node.last_seen_at:%Y-%m-%d %H:%M:%S} UTC; "
            f"{node.live} of its replicas are concerned",
            values={"replicas": node.live, "threshold_s": limits.node_silent_s},
            hold=HOLD_NODE,
        )


def _unhealthy_gpus() -> Iterator[Condition]:
    """Not one that an operator fenced and that has no fault of its own: they know. Probation is the way back."""
    rows = Gpu.objects.filter(health__in=(Health.SUSPECT, Health.DRAINING, Health.FENCED)).select_related("node")
    for gpu in rows.annotate(live=Count("slices__seats")):
        faults = [fault.key for fault in faults_of(gpu) if fault.key != "operator"]
        if not faults:
            continue
        yield Condition(
            rule=Rule.GPU_UNHEALTHY,
            severity=Severity.WARNING if gpu.health == Health.SUSPECT else Severity.CRITICAL,
            subject=gpu.id,
            subject_kind="gpu",
            subject_id=gpu.id,
            subject_name=f"{gpu.node.name} {gpu.label}",
            summary=f"GPU {gpu.label} of node {gpu.node.name} is {gpu.health}: {gpu.health_reason}",
            values={"health": gpu.health, "faults": faults, "replicas": gpu.live},
        )


def _of_contract(
    contract: Contract, rule: Rule, severity: Severity, summary: str, values: Mapping[str, Any]
) -> Condition:
    return Condition(
        rule=rule,
        severity=severity,
        subject=f"{contract.tenant_id}:{contract.deployment_id}",
        subject_kind="deployment",
        subject_id=contract.deployment_id,
        subject_name=contract.deployment.name,
        summary=summary,
        tenant_id=contract.tenant_id,
        values=values,
    )


def _name(contract: Contract) -> str:
    return f"{contract.tenant.slug} on {contract.deployment.name}"


def budget_words(contract: Contract) -> str:
    return f"{contract.level().attainment_target:.1%} were promised"


def _share(used: float, allowed: int | None) -> float:
    return used / allowed if allowed else 0.0


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
