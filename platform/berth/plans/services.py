"""The one writer of plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from berth.core.notify import changed
from berth.deployments.models import Deployment
from berth.plans.models import Plan, PlanState

# The figures a repeat of the same outcome may bring up to date.
_FRESH = ("inputs", "objective", "bound", "gap", "seconds", "candidates", "pending", "before", "after")


@transaction.atomic
def store_plan(*, values: Mapping[str, Any], counts: Mapping[str, int], now: datetime) -> Plan:
    """``values``: the columns of ``Plan`` that say what was planned. ``counts``: replicas of each deployment in it.

    One that asks for nothing, for the same reason as the one before it, counts that one up.
    """
    plan_replicas(counts=counts)
    state = PlanState.RUNNING if values["waves"] else PlanState.IDLE
    last = Plan.objects.select_for_update().order_by("-at", "-id").first()
    if last is not None and state == PlanState.IDLE == last.state and _same(last, values):
        fresh = {name: values[name] for name in _FRESH}
        Plan.objects.filter(id=last.id).update(count=F("count") + 1, last_at=now, **fresh)
        last.refresh_from_db()
        return last
    ended = now if state == PlanState.IDLE else None
    made = Plan.objects.create(**values, state=state, at=now, last_at=now, wave_since=now, ended_at=ended)
    changed("plan", made.id)
    return made


def advance_plan(*, plan: Plan, wave: int, now: datetime) -> None:
    """``wave`` of its waves are done."""
    Plan.objects.filter(id=plan.id, state=PlanState.RUNNING).update(wave=wave, wave_since=now)
    changed("plan", plan.id)


def end_plan(*, plan: Plan, state: str, why: str, now: datetime) -> None:
    """``state``: done or abandoned. The first end stays."""
    rows = Plan.objects.filter(id=plan.id, state=PlanState.RUNNING)
    if rows.update(state=state, ended_at=now, ended_why=why):
        changed("plan", plan.id)


def forget_plans(*, before: datetime) -> int:
    """Removes what was last true before that time; how many."""
    deleted: int = Plan.objects.filter(last_at__lt=before).exclude(state=PlanState.RUNNING).delete()[0]
    return deleted


def plan_replicas(*, counts: Mapping[str, int]) -> None:
    """How many replicas of each deployment are planned; of those that are not in ``counts``, none."""
    rows = Deployment.objects.for_platform().filter(Q(id__in=counts) | Q(planned_replicas__gt=0))
    for row in rows.only("id", "tenant_id", "planned_replicas"):
        count = counts.get(row.id, 0)
        if row.planned_replicas != count:
            # Not by save(): the deployment's settings did not change, and what failed since then is still remembered.
            Deployment.objects.for_platform().filter(id=row.id).update(planned_replicas=count)
            changed("deployment", row.id, row.tenant_id)


def _same(last: Plan, values: Mapping[str, Any]) -> bool:
    mine = [one["deployment"] for one in values["pending"]]
    return last.kind == values["kind"] and [one["deployment"] for one in last.pending] == mine
