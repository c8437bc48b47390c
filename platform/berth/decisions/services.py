"""The one writer of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from berth.core.notify import changed
from berth.decisions.models import Decision, DecisionKind
from scheduler.decisions import Decision as Planned

# A refusal that comes again after so long is news.
SAME_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Taken:
    """A planned decision that was acted on. ``replica``: the one it made, where the plan could not name it."""

    planned: Planned
    tenant_id: str
    deployment_name: str
    node_name: str = ""
    replica: str = ""


@transaction.atomic
def record_decisions(*, taken: Iterable[Taken], now: datetime) -> list[Decision]:
    """One row each. A refusal of the same deployment for the same reason only counts up. Returns the new rows."""
    taken = list(taken)
    refusals = {one.planned.deployment: one.planned for one in taken if one.planned.kind == DecisionKind.REFUSE}
    known = _repeat(refusals, now) if refusals else set()
    # A tick finds the same refusals again: only of what is new are the candidates written out.
    new = [one for one in taken if one.planned.kind != DecisionKind.REFUSE or one.planned.deployment not in known]
    fresh = [_row(one, now) for one in new]
    Decision.objects.bulk_create(fresh)
    for row in fresh:
        changed("decision", row.id, row.tenant_id)
    return fresh


def forget_decisions(*, before: datetime) -> int:
    """Removes what was last true before that time; how many."""
    deleted: int = Decision.objects.for_platform().filter(at__lt=before, last_at__lt=before).delete()[0]
    return deleted


def _repeat(refusals: Mapping[str, Planned], now: datetime) -> set[str]:
    """The deployments whose last decision is this very refusal; that one is counted up."""
    same: dict[str, str] = {}
    latest = Decision.objects.for_platform().filter(deployment_id__in=refusals, at__gt=now - timedelta(days=1))
    newest = latest.order_by("deployment_id", "-id").distinct("deployment_id")
    for row in newest.values("id", "deployment_id", "kind", "why", "last_at"):
        refusal = refusals[row["deployment_id"]]
        recent = row["last_at"] >= now - SAME_WITHIN
        if recent and row["kind"] == DecisionKind.REFUSE and row["why"] == refusal.why:
            same[row["deployment_id"]] = row["id"]
    if same:
        rows = Decision.objects.for_platform().filter(id__in=same.values())
        rows.update(count=F("count") + 1, last_at=now)
    return set(same)


def _row(one: Taken, now: datetime) -> Decision:
    planned = one.planned
    candidates: list[dict[str, Any]] = [asdict(candidate) for candidate in planned.candidates]
    chosen = next((found for found in candidates if found["device_id"] == planned.device), None)
    return Decision(
        tenant_id=one.tenant_id,
        kind=planned.kind,
        deployment_id=planned.deployment,
        deployment_name=one.deployment_name,
        replica_id=one.replica or planned.replica,
        node_id=planned.node,
        node_name=one.node_name,
        summary=planned.summary[:300],
        why=planned.why,
        inputs=dict(planned.inputs),
        candidates=candidates,
        chosen=chosen,
        at=now,
        last_at=now,
    )
