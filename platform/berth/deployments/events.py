"""What happened to a deployment, newest first: changes, replicas' readiness, restarts and ends, and decisions.

Three tables hold it. Of each the newest before the cursor are read and merged; the cursor is the last one's time and
id, so that events of one moment are neither lost nor told twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from berth.audit.models import AuditEvent
from berth.decisions.models import Decision
from berth.deployments.models import Deployment, Replica

# A decision tells it with more.
_TOLD_BY_DECISIONS = ("replica.create", "replica.drain")
_WORDS = {
    "deployment.create": "Created",
    "deployment.change": "Changed",
    "deployment.start": "Started",
    "deployment.stop": "Stopped",
    "replica.restart": "A replica crashed and was started again",
}


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    at: datetime
    kind: str
    actor: str
    summary: str
    reason: str
    object: str
    count: int = 1
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[datetime, str]:
        return self.at, self.id


def events_of(deployment: Deployment, *, before: tuple[datetime, str] | None, limit: int) -> list[Event]:
    """At most ``limit`` events older than the one whose ``key`` is ``before``."""
    found = [*_audited(deployment, before, limit), *_ready(deployment, before, limit)]
    found += _decided(deployment, before, limit)
    return sorted(found, key=lambda event: event.key, reverse=True)[:limit]


def _audited(deployment: Deployment, before: tuple[datetime, str] | None, limit: int) -> Iterator[Event]:
    replicas = Replica.objects.for_tenant(deployment.tenant_id).filter(deployment=deployment).values("id")
    own = Q(object_type="deployment", object_id=deployment.id)
    rows = AuditEvent.objects.for_tenant(deployment.tenant_id).filter(own | Q(object_id__in=replicas))
    rows = rows.exclude(action__in=_TOLD_BY_DECISIONS).order_by("-created_at", "-id")
    for row in _older(rows, "created_at", "id", before, limit):
        after = row.after or {}
        reason = str(after.get("reason", ""))
        summary = _WORDS.get(row.action, row.action)
        if row.action == "replica.end":
            summary = f"A replica ended: {after.get('state', '')}"
        elif row.action == "deployment.change":
            summary = f"Changed {', '.join(after)}"
        yield Event(
            row.id, row.created_at, row.action, row.actor, summary, reason, row.object_id, 1, row.before, row.after
        )


def _ready(deployment: Deployment, before: tuple[datetime, str] | None, limit: int) -> Iterator[Event]:
    rows = Replica.objects.for_tenant(deployment.tenant_id).filter(deployment=deployment, ready_at__isnull=False)
    rows = rows.select_related("node").order_by("-ready_at", "-id")
    for row in _older(rows, "ready_at", "id", before, limit):
        where = f" on {row.node.name}" if row.node is not None else ""
        took = (row.ready_at - row.created_at).total_seconds()
        reason = f"{took:.0f} s after it was wanted"
        yield Event(row.id, row.ready_at, "replica.ready", "agent", f"A replica is ready{where}", reason, row.id)


def _decided(deployment: Deployment, before: tuple[datetime, str] | None, limit: int) -> Iterator[Event]:
    rows = Decision.objects.for_tenant(deployment.tenant_id).filter(deployment_id=deployment.id)
    for row in _older(rows.order_by("-at", "-id"), "at", "id", before, limit):
        kind, about = f"decision.{row.kind}", row.replica_id or row.id
        yield Event(row.id, row.at, kind, "scheduler", row.summary, row.why, about, row.count)


def _older(rows: Any, at: str, key: str, before: tuple[datetime, str] | None, limit: int) -> Iterable[Any]:
    if before is not None:
        moment, last = before
        rows = rows.filter(Q(**{f"{at}__lt": moment}) | Q(**{at: moment, f"{key}__lt": last}))
    found: Iterable[Any] = rows[:limit]
    return found
