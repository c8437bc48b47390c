"""The tick: see what is, plan by ``scheduler.reconcile``, act through berth's services. May run twice, or not at all.

Celery's beat sends it every 2 s and every change sends it at once; a lease lets one of them work at a time.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import redis
from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F

import scheduler.world as plan
from berth.core import leases
from berth.core.errors import BerthError
from berth.core.notify import desired_changed
from berth.decisions.services import Taken, record_decisions
from berth.deployments import replicas as services
from berth.deployments.models import Deployment, DesiredState, Replica, ReplicaState
from berth.deployments.needs import needs_of_deployment
from berth.fleet.models import Gpu, Node, SliceUnit
from berth.fleet.seats import reserve_seat
from berth.live import names
from berth.observability.scheduler import actions as actions_taken
from berth.observability.scheduler import timed_tick
from scheduler.reconcile import reconcile as plan_tick
from scheduler.watch import Watch, look

log = logging.getLogger(__name__)

# Longer than any tick, short enough for another worker to go on soon after this one was killed.
LEASE_S = 6.0
WATCH_TTL_S = 60
# How far back failures are remembered when a deployment is tried again.
FAILURE_MEMORY = timedelta(hours=1)
REDIS_TIMEOUT_S = 1.0


@shared_task(name="scheduler.tasks.reconcile")
def reconcile() -> None:
    with leases.hold("reconcile", LEASE_S) as mine:
        if mine:
            with timed_tick():
                tick(time.time())


def tick(now: float) -> list[plan.Action]:
    """One look and what follows from it; returns the actions planned. ``now``: seconds since 1970."""
    nodes, rows = _nodes(), _replicas()
    watch = _watch([row for row in rows if row.node is not None], nodes, now)
    observed = plan.ObservedWorld(
        nodes=nodes,
        replicas=tuple(replace(row, missing_since=watch.missing_since.get(row.id)) for row in rows),
        observing_since=watch.observing_since,
        failures=_failures(now),
    )
    desired = plan.DesiredWorld(_deployments(rows))
    planned = plan_tick(observed, desired, now)
    made: dict[int, str] = {}
    for action in planned.actions:
        try:
            made[id(action)] = _act(action)
            actions_taken.labels(type(action).__name__).inc()
        except (BerthError, Replica.DoesNotExist, Deployment.DoesNotExist, Gpu.DoesNotExist) as error:
            # Somebody else was faster: the next tick sees what is and plans anew.
            log.info("action_not_taken", extra={"action": type(action).__name__, "reason": str(error)})
    taken = [one for one in planned.decisions if one.action is None or id(one.action) in made]
    _record(taken, made, observed, now)
    _remind_agents()
    return planned.actions


# --- what is and what should be ---------------------------------------------------------------------------------


def _nodes() -> tuple[plan.Node, ...]:
    used = Counter(SliceUnit.objects.values_list("gpu_id", flat=True))
    devices: dict[str, list[plan.Device]] = {}
    for gpu in Gpu.objects.filter(present=True).order_by("index", "id"):
        device = plan.Device(gpu.id, gpu.label, gpu.memory_bytes, max(1, gpu.units), used[gpu.id])
        if device.memory_bytes > 0:
            devices.setdefault(gpu.node_id, []).append(device)
    return tuple(
        plan.Node(
            id=node.id,
            name=node.name,
            heard_at=node.last_seen_at.timestamp() if node.last_seen_at is not None else None,
            cordoned=node.cordoned,
            draining=node.drain_requested_at is not None,
            devices=tuple(devices.get(node.id, ())),
        )
        for node in Node.objects.order_by("name")
    )


def _replicas() -> tuple[plan.Replica, ...]:
    live = Replica.objects.for_platform().filter(ended_at=None).order_by("created_at", "id")
    fields = ("id", "deployment_id", "node_id", "run", "state", "reason", "created_at", "memory_bytes", "restarts")
    return tuple(
        plan.Replica(
            id=row["id"],
            deployment=row["deployment_id"],
            # Without a seat it is not placed, also when its node was deleted under it.
            node=row["node_id"] if row["seat__slice__gpu_id"] is not None else None,
            device=row["seat__slice__gpu_id"],
            run=row["run"],
            state=row["state"],
            reason=row["reason"],
            created_at=row["created_at"].timestamp(),
            memory_bytes=row["memory_bytes"],
            restarts=row["restarts"],
        )
        for row in live.values(*fields, "seat__slice__gpu_id")
    )


def _deployments(rows: Iterable[plan.Replica]) -> tuple[plan.Deployment, ...]:
    running: dict[str, list[plan.Replica]] = {}
    for row in rows:
        if row.run:
            running.setdefault(row.deployment, []).append(row)
    deployments = Deployment.objects.for_platform().select_related("model", "service_class")
    deployments = deployments.order_by("created_at", "id")
    return tuple(_wanted(deployment, running.get(deployment.id, [])) for deployment in deployments)


def _wanted(deployment: Deployment, running: list[plan.Replica]) -> plan.Deployment:
    service_class = deployment.service_class.name
    count = deployment.replica_count if deployment.desired_state == DesiredState.RUNNING else 0
    if running or count == 0:  # the settings behind the figure do not change while one runs
        memory_bytes = max((row.memory_bytes for row in running), default=0)
        return plan.Deployment(deployment.id, deployment.name, count, memory_bytes, service_class)
    try:
        memory_bytes = needs_of_deployment(deployment).total_bytes
    except (BerthError, ValueError, KeyError) as error:
        log.error("deployment_not_placeable", extra={"deployment": deployment.id, "reason": str(error)})
        return plan.Deployment(deployment.id, deployment.name, 0, 0, service_class)
    return plan.Deployment(deployment.id, deployment.name, count, memory_bytes, service_class)


def _failures(now: float) -> tuple[plan.Failure, ...]:
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


def _watch(placed: list[plan.Replica], nodes: Iterable[plan.Node], now: float) -> Watch:
    """Who is missing, remembered in Redis with the liveness keys themselves: lost together, both begin anew."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_S) as client:
            keys = [names.alive(row.id) for row in placed]
            epochs = client.mget(keys) if keys else []
            missing = [row.id for row, epoch in zip(placed, epochs, strict=True) if epoch is None]
            heard = any(node.heard(now) for node in nodes)
            watch = look(_decoded(client.get(names.WATCH)), now=now, any_node_heard=heard, missing=missing)
            client.set(names.WATCH, msgspec.json.encode(watch), ex=WATCH_TTL_S)
            return watch
    except redis.RedisError as error:
        log.warning("liveness_not_read", extra={"reason": str(error)})
        return Watch(ticked_at=now)


def _decoded(data: Any) -> Watch | None:
    try:
        return msgspec.json.decode(data, type=Watch) if data else None
    except msgspec.DecodeError:
        return None


# --- what follows -------------------------------------------------------------------------------------------------


def _act(action: plan.Action) -> str:
    """Carries it out; the replica it is about, or that it made."""
    about = getattr(action, "replica", None) or ""
    match action:
        case plan.CreateReplica(deployment, reason):
            about = services.create_replica(deployment=_deployment(deployment), reason=reason).id
        case plan.PlaceReplica():
            about = _place(action)
        case plan.DrainReplica(replica, reason):
            services.drain_replica(replica=_replica(replica), reason=reason)
        case plan.MarkLost(replica, reason):
            services.drain_replica(replica=_replica(replica), reason=reason, state=ReplicaState.LOST)
        case plan.EndReplica(replica, state, reason):
            services.end_replica(replica=_replica(replica), state=state, reason=reason)
        case plan.Explain(replica, reason):
            services.set_reason(replica=_replica(replica), reason=reason)
    if not isinstance(action, plan.Explain):
        log.info("action", extra={"action": type(action).__name__, "reason": action.reason})
    return str(about)


def _record(taken: Iterable[plan.Planned], made: dict[int, str], observed: plan.ObservedWorld, now: float) -> None:
    """Writes down why. Decisions inform people: that they cannot be written stops no placement."""
    taken = list(taken)
    if not taken:
        return
    nodes = {node.id: node.name for node in observed.nodes}
    ids = {one.decision.deployment for one in taken}
    owners = {
        row.id: row for row in Deployment.objects.for_platform().filter(id__in=ids).only("id", "name", "tenant_id")
    }
    rows = [
        Taken(
            planned=one.decision,
            tenant_id=owners[one.decision.deployment].tenant_id,
            deployment_name=owners[one.decision.deployment].name,
            node_name=nodes.get(one.decision.node, ""),
            replica=made.get(id(one.action), "") if one.action is not None else "",
        )
        for one in taken
        if one.decision.deployment in owners
    ]
    try:
        record_decisions(taken=rows, now=datetime.fromtimestamp(now, UTC))
    except DatabaseError as error:
        log.warning("decisions_not_kept", extra={"error": str(error).strip()})


@transaction.atomic
def _place(action: plan.PlaceReplica) -> str:
    """The row, its seat and its reason, or nothing of them."""
    if action.replica is None:
        replica = services.create_replica(deployment=_deployment(action.deployment), reason=action.reason)
    else:
        replica = _replica(action.replica)
        services.set_reason(replica=replica, reason=action.reason)
    reserve_seat(replica=replica, gpu=Gpu.objects.get(id=action.device), memory_bytes=action.memory_bytes)
    return str(replica.id)


def _deployment(deployment_id: str) -> Deployment:
    row: Deployment = Deployment.objects.for_platform().select_related("model").get(id=deployment_id)
    return row


def _replica(replica_id: str) -> Replica:
    row: Replica = Replica.objects.for_platform().get(id=replica_id)
    return row


def _remind_agents() -> None:
    """A message to an agent may be lost: it is sent again until the agent reports that it applied the newest state."""
    for node_id in Node.objects.filter(observed_generation__lt=F("generation")).values_list("id", flat=True):
        desired_changed(node_id)
