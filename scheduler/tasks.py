"""The tick: see what is, plan by ``scheduler.reconcile``, act through berth's services. May run twice, or not at all.

Celery's beat sends it every 2 s and every change sends it at once; a lease lets one of them work at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
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
from berth.core.notify import desired_changed, nudge_scheduler
from berth.decisions.services import Taken, record_decisions
from berth.deployments import replicas as services
from berth.deployments.models import Deployment, Replica, ReplicaState
from berth.fleet.models import Gpu, Node
from berth.fleet.seats import reserve_seat
from berth.live import names
from berth.observability.scheduler import actions as actions_taken
from berth.observability.scheduler import timed_tick
from berth.plans import world
from berth.plans.fleet import boards_of
from scheduler import planning
from scheduler.reconcile import reconcile as plan_tick
from scheduler.watch import Watch, look

log = logging.getLogger(__name__)

# Longer than any tick, short enough for another worker to go on soon after this one was killed.
LEASE_S = 6.0
# So long a tick begins further actions, within its lease; the next, which follows at once, plans anew what is left.
ACT_FOR_S = 3.0
WATCH_TTL_S = 60
REDIS_TIMEOUT_S = 1.0


@shared_task(name="scheduler.tasks.reconcile")
def reconcile() -> None:
    with leases.hold("reconcile", LEASE_S) as mine:
        if mine:
            with timed_tick():
                tick(time.time())


def tick(now: float) -> list[plan.Action]:
    """One look and what follows from it; returns the actions planned. ``now``: seconds since 1970."""
    until = time.monotonic() + ACT_FOR_S
    nodes, rows = world.nodes(), world.replicas()
    boards, last = boards_of(nodes), planning.newest()
    watch = _watch([row for row in rows if row.node is not None], nodes, now)
    observed = plan.ObservedWorld(
        nodes=nodes,
        replicas=tuple(replace(row, missing_since=watch.missing_since.get(row.id)) for row in rows),
        observing_since=watch.observing_since,
        failures=world.failures(now),
        cached=world.cached() if boards else frozenset(),
    )
    desired = planning.wanted(world.deployments(rows, boards), last, now)
    made: dict[int, str] = {}
    moved = planning.carry_out(last, observed, desired, now, lambda action: _taken(action, made))
    planned = plan_tick(observed, desired, now)
    for action in planned.actions:
        if time.monotonic() > until:
            nudge_scheduler()
            break
        _taken(action, made)
    _record([one for one in planned.decisions if one.action is None or id(one.action) in made], made, observed, now)
    _remind_agents()
    return [*(moved.begin + moved.drop if moved is not None else ()), *planned.actions]


def _taken(action: plan.Action, made: dict[int, str]) -> bool:
    """Whether it was carried out; ``made`` is told which replica it was about."""
    try:
        made[id(action)] = _act(action)
    except (BerthError, Replica.DoesNotExist, Deployment.DoesNotExist, Gpu.DoesNotExist) as error:
        # Somebody else was faster: the next tick sees what is and plans anew.
        log.info("action_not_taken", extra={"action": type(action).__name__, "reason": str(error)})
        return False
    actions_taken.labels(type(action).__name__).inc()
    return True


# --- who is missing ---------------------------------------------------------------------------------------------


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
        deployment = _deployment(action.deployment)
        replica = services.create_replica(deployment=deployment, reason=action.reason, replaces=action.replaces)
    else:
        replica = _replica(action.replica)
        services.set_reason(replica=replica, reason=action.reason)
    gpu = Gpu.objects.get(id=action.device)
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=action.memory_bytes, place=action.place)
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
