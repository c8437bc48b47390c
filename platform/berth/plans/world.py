"""What the scheduler sees: rows as the plain data of scheduler/world.py. A handful of queries whatever the fleet."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, Q
from django.utils import timezone

import scheduler.world as plan
from berth.core.errors import BerthError
from berth.deployments.models import Deployment, DesiredState, Replica, ReplicaState
from berth.deployments.needs import needs_of_deployment
from berth.fleet.models import Gpu, Health, Node, SliceUnit
from berth.fleet.places import blocked_of, place_in
from berth.fleet.seats import takes_new
from berth.plans.demands import demand_of, of_class, profile_of, promises
from berth.plans.measured import measurements
from gpuruntime.modelinfo import MemoryNeeds
from scheduler.packing.model import ISOLATION, Demand

log = logging.getLogger(__name__)

# How far back failures are remembered when a deployment is tried again.
FAILURE_MEMORY = timedelta(hours=1)
# A node that ran a model within so long has its weights still: an agent's cache forgets the longest unused first.
CACHED_FOR = timedelta(days=1)
_LEAVING = (Health.DRAINING, Health.FENCED)


def nodes() -> tuple[plan.Node, ...]:
    """Every node with its devices that are there."""
    used = Counter(SliceUnit.objects.values_list("gpu_id", flat=True))
    devices: dict[str, list[plan.Device]] = {}
    for gpu in Gpu.objects.filter(present=True).order_by("index", "id"):
        if gpu.memory_bytes > 0:
            devices.setdefault(gpu.node_id, []).append(_device(gpu, used[gpu.id]))
    return tuple(
        plan.Node(
            id=node.id,
            name=node.name,
            heard_at=node.last_seen_at.timestamp() if node.last_seen_at is not None else None,
            cordoned=node.cordoned,
            draining=node.drain_requested_at is not None,
            devices=tuple(devices.get(node.id, ())),
            domain=node.fault_domain or node.id,
        )
        for node in Node.objects.order_by("name")
    )


def _device(gpu: Gpu, used_units: int) -> plan.Device:
    return plan.Device(
        id=gpu.id,
        label=gpu.label,
        memory_bytes=gpu.memory_bytes,
        units=max(1, gpu.units),
        used_units=used_units,
        board=gpu.board,
        kinds=frozenset(ISOLATION[kind] for kind in gpu.kinds),
        blocked=blocked_of(gpu),
        unfit="" if takes_new(gpu) else f"it is {gpu.health}: {gpu.health_reason}",
        leaving=gpu.health in _LEAVING,
        fenced=gpu.health == Health.FENCED,
    )


def replicas() -> tuple[plan.Replica, ...]:
    """Those that have not ended, the oldest first: columns instead of rows, for there are thousands at a time."""
    live = Replica.objects.for_platform().filter(ended_at=None).order_by("created_at", "id")
    return tuple(_replica(row) for row in live.values_list(*_REPLICA, named=True))


_REPLICA = (
    "id", "tenant_id", "deployment_id", "node_id", "run", "state", "reason", "created_at", "memory_bytes", "restarts",
    "replaces", "seat__burst", "seat__slice__gpu_id", "seat__slice__gpu__board", "seat__slice__kind",
    "seat__slice__profile", "seat__slice__start",
)  # fmt: skip


def _replica(row: Any) -> plan.Replica:
    """``row``: with the columns of ``_REPLICA``; without a seat, those of it are None."""
    gpu: str | None = row.seat__slice__gpu_id
    place = None
    if gpu is not None:
        where = (row.seat__slice__kind, row.seat__slice__profile, row.seat__slice__start, row.seat__slice__gpu__board)
        place = place_in(*where, burst=row.seat__burst)
    return plan.Replica(
        id=row.id,
        deployment=row.deployment_id,
        # Without a seat it is not placed, also when its node was deleted under it.
        node=row.node_id if gpu is not None else None,
        device=gpu,
        run=row.run,
        state=row.state,
        reason=row.reason,
        created_at=row.created_at.timestamp(),
        memory_bytes=row.memory_bytes,
        restarts=row.restarts,
        place=place,
        replaces=row.replaces,
        trust=row.tenant_id,
    )


def deployments(rows: Iterable[plan.Replica], boards: Iterable[str]) -> tuple[plan.Deployment, ...]:
    """``rows``: the replicas; ``boards``: the types of GPU that the fleet has."""
    running: dict[str, list[plan.Replica]] = {}
    for row in rows:
        if row.run:
            running.setdefault(row.deployment, []).append(row)
    wanted = Deployment.objects.for_platform().select_related("model", "service_class").order_by("created_at", "id")
    boards = tuple(boards)
    promised, measured = (promises(timezone.now()), measurements()) if boards else ({}, {})

    def demand(row: Deployment, needs: MemoryNeeds) -> Demand:
        # Without a contract, its class alone says what it needs.
        promise = promised.get(row.id) or of_class(row.service_class)
        return demand_of(row, promise, profile_of(row, needs, promise, measured), boards)

    return tuple(_wanted(row, running.get(row.id, []), demand if boards else None) for row in wanted)


def _wanted(
    deployment: Deployment,
    running: list[plan.Replica],
    demand: Callable[[Deployment, MemoryNeeds], Demand] | None,
) -> plan.Deployment:
    """``demand`` None: the fleet has no GPU that is cut."""
    service_class = deployment.service_class.name
    count = 0
    if deployment.desired_state == DesiredState.RUNNING:
        count = max(deployment.replica_count, deployment.planned_replicas if deployment.replica_count else 0)
    if count == 0 or (running and demand is None):  # nobody asks what it needs
        memory_bytes = max((row.memory_bytes for row in running), default=0)
        return plan.Deployment(deployment.id, deployment.name, count, memory_bytes, service_class)
    try:
        needs = needs_of_deployment(deployment)
        asked = demand(deployment, needs) if demand is not None else None
    except (BerthError, ValueError, KeyError) as error:
        log.error("deployment_not_placeable", extra={"deployment": deployment.id, "reason": str(error)})
        return plan.Deployment(deployment.id, deployment.name, 0, 0, service_class)
    # The settings behind the figure do not change while one runs.
    memory_bytes = max((row.memory_bytes for row in running), default=needs.total_bytes)
    return plan.Deployment(deployment.id, deployment.name, count, memory_bytes, service_class, asked)


def demands_of(rows: Iterable[plan.Deployment]) -> dict[str, Demand]:
    """Of those that are to run, by deployment."""
    return {row.id: row.demand for row in rows if row.demand is not None and row.count}


def failures(now: float) -> tuple[plan.Failure, ...]:
    """Replicas given up since their deployment was last changed: whoever changes it wants to see it tried at once."""
    ended = Replica.objects.for_platform().filter(
        state=ReplicaState.FAILED,
        node__isnull=False,
        ended_at__gt=datetime.fromtimestamp(now, UTC) - FAILURE_MEMORY,
    )
    since_change = ended.filter(ended_at__gt=F("deployment__updated_at"))
    return tuple(
        plan.Failure(deployment, node, at.timestamp(), reason)
        for deployment, node, at, reason in since_change.values_list("deployment_id", "node_id", "ended_at", "reason")
        if at is not None
    )


def cached() -> frozenset[tuple[str, str]]:
    """(node, model): where the weights lie already, judged by what ran there."""
    recent = Q(ended_at=None) | Q(ended_at__gt=timezone.now() - CACHED_FOR)
    ran = Replica.objects.for_platform().filter(recent, node__isnull=False, ready_at__isnull=False)
    return frozenset(ran.values_list("node_id", "deployment__model__digest").distinct())
