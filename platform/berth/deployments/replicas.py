"""Writes of replicas: the scheduler creates, drains and ends them; agents' reports say what they really do."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from berth.audit.services import record
from berth.core.errors import Invalid
from berth.core.notify import changed, nudge_scheduler
from berth.core.version import raise_version
from berth.deployments.models import ENDED_STATES, Deployment, Replica, ReplicaState
from berth.deployments.needs import needs_of_deployment
from berth.fleet.models import Node
from berth.fleet.seats import release_seat
from berth.fleet.services import raise_generation
from gpuruntime import protocol

ACTOR = "scheduler"


@transaction.atomic
def create_replica(*, deployment: Deployment, reason: str, replaces: str = "") -> Replica:
    """A replica that waits for a seat (``fleet.services.reserve_seat``). ``replaces``: who goes once it is ready."""
    needs = needs_of_deployment(deployment)
    replica = Replica.objects.create(
        tenant_id=deployment.tenant_id,
        deployment=deployment,
        reason=reason,
        memory_bytes=needs.total_bytes,
        replaces=replaces,
    )
    record(actor=ACTOR, action="replica.create", obj=replica, after={"deployment": deployment.id, "reason": reason})
    changed("replica", replica.id, replica.tenant_id)
    return replica


@transaction.atomic
def drain_replica(*, replica: Replica, reason: str, state: str = ReplicaState.DRAINING) -> Replica:
    """It takes no new request, finishes what runs and ends. One that never had a seat ends here. Idempotent.

    ``state`` lost: nobody hears it; it keeps its seat until its agent says that it is gone.
    """
    row = _lock(replica)
    if row.ended_at is not None or not row.run:
        return row
    if row.node_id is None:
        return end_replica(replica=row, state=ReplicaState.STOPPED, reason=reason)
    row.run, row.state, row.reason = False, state, reason
    row.save(update_fields=["run", "state", "reason"])
    record(actor=ACTOR, action="replica.drain", obj=row, after={"reason": reason})
    _moved(row)
    return row


@transaction.atomic
def end_replica(*, replica: Replica, state: str, reason: str) -> Replica:
    """The replica is over: ``state`` lost, failed or stopped. Frees its seat. Idempotent: the first end stays."""
    if state not in ENDED_STATES:
        raise Invalid(f"{state!r} is not an end: expected one of {', '.join(ENDED_STATES)}", field="state")
    row = _lock(replica)
    if row.ended_at is not None:
        return row
    row.run, row.state, row.reason, row.ended_at = False, state, reason, timezone.now()
    row.port, row.pid = 0, 0
    row.save(update_fields=["run", "state", "reason", "ended_at", "port", "pid"])
    release_seat(replica=row)
    record(actor=ACTOR, action="replica.end", obj=row, after={"state": state, "reason": reason})
    _moved(row)
    return row


@transaction.atomic
def set_reason(*, replica: Replica, reason: str) -> None:
    """Why it still waits, for a person to read. No event: the scheduler says it again at each tick."""
    if replica.reason != reason:
        replica.reason = reason
        replica.save(update_fields=["reason"])
        changed("replica", replica.id, replica.tenant_id)


@transaction.atomic
def observe_replicas(*, node: Node, observed: protocol.Observed) -> list[str]:
    """Store what the agent says of the replicas that sit on its node; the ids of those that changed.

    Replicas that ended, and those of another node, are left alone whatever the agent says.
    """
    seen = {item.replica_id: item for item in observed.replicas}
    rows = Replica.objects.for_platform().filter(node=node, ended_at=None, id__in=seen)
    moved = []
    for row in rows.select_for_update().order_by("id"):
        if _observe(row, seen[row.id]):
            moved.append(row.id)
            changed("replica", row.id, row.tenant_id)
    if moved:
        raise_version()
        nudge_scheduler()
    return moved


def _observe(row: Replica, item: protocol.ObservedReplica) -> bool:
    """True when something changed that others act on; progress and memory are stored silently."""
    now = timezone.now()
    state: str = item.state
    if not row.run and state in (ReplicaState.PLACING, ReplicaState.LOADING, ReplicaState.READY):
        state = ReplicaState.DRAINING  # the agent has not heard yet, or is at it
    values: dict[str, Any] = {
        "state": state,
        "reason": item.reason or (row.reason if not row.run else ""),
        "epoch": item.epoch,
        "pid": item.pid,
        "port": item.port if item.alive else 0,
        "restarts": item.restarts,
    }
    moved = any(getattr(row, name) != value for name, value in values.items())
    if item.restarts > row.restarts:
        after = {"restarts": item.restarts, "reason": item.reason}
        record(actor=f"node {row.node_id}", action="replica.restart", obj=row, after=after)
    if state == ReplicaState.READY and (row.ready_at is None or row.epoch != item.epoch):
        values["ready_at"] = now
    elif state == ReplicaState.LOADING:
        values["ready_at"] = None
    values |= {"progress": item.progress, "memory_used_bytes": item.memory_bytes, "observed_at": now}
    for name, value in values.items():
        setattr(row, name, value)
    row.save(update_fields=list(values))
    return moved


def _lock(replica: Replica) -> Replica:
    row: Replica = Replica.objects.for_tenant(replica.tenant_id).select_for_update().get(id=replica.id)
    return row


def _moved(row: Replica) -> None:
    if row.node_id is not None:
        raise_generation(row.node_id)
    changed("replica", row.id, row.tenant_id)
    nudge_scheduler()
    raise_version()
