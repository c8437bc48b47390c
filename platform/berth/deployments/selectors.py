"""Reads of deployments and replicas, with what only Redis knows: who is alive.

``lost`` is computed here: a replica that was ready for longer than the key lives, and whose key is gone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db.models import Prefetch, Q
from django.utils import timezone

from berth.core.scoping import Scope, ScopedQuerySet
from berth.deployments.models import ENDED_STATES, Deployment, DesiredState, Replica, ReplicaState
from berth.deployments.platform import NAME
from berth.live import names
from berth.slas.models import Contract
from berth.slas.selectors import lasts_beyond
from berth.tenants.models import PLATFORM_TENANT, Tenant

log = logging.getLogger(__name__)

# An end is shown in a deployment's summary for this long.
RECENT = timedelta(minutes=15)
REDIS_TIMEOUT_S = 1.0
_PLATFORM = Tenant(id=PLATFORM_TENANT, name=NAME, slug="platform")
LOST_REASON = f"no word from it for {names.ALIVE_TTL_S} s"


@dataclass(frozen=True, slots=True)
class Summary:
    """``state``: running, starting, degraded, failed, stopping or stopped; ``stale``: liveness is not known."""

    wanted: int
    ready: int
    state: str
    reason: str
    stale: bool


def deployments(scope: Scope) -> ScopedQuerySet:
    """A tenant's own and those it has a contract on, in force or to come.

    Each with ``recent``: its live replicas and those that ended a short while ago, newest first.
    """
    recent = Replica.objects.for_platform().filter(Q(ended_at=None) | Q(ended_at__gte=timezone.now() - RECENT))
    rows = Deployment.objects.for_platform()
    if scope.tenant_ids is not None:
        open_ones = Contract.objects.for_tenants(scope.tenant_ids).filter(lasts_beyond(timezone.now()))
        granted = open_ones.values("deployment_id")
        rows = rows.filter(Q(tenant_id__in=scope.tenant_ids) | Q(id__in=granted))
    rows = rows.select_related("tenant", "model", "service_class")
    return rows.prefetch_related(Prefetch("replicas", queryset=recent.order_by("-id"), to_attr="recent"))


def annotate_access(rows: Sequence[Deployment], scope: Scope) -> None:
    """Sets ``access``, ``owner_kind``, ``shown_tenant`` and ``shown_class``.

    A guest does not learn whose it is, and sees the class that its own contract promises: in force, or the next one.
    """
    guests = [] if scope.tenant_ids is None else [row for row in rows if row.tenant_id not in scope.tenant_ids]
    promised = {}
    if guests and scope.tenant_ids is not None:
        open_ones = Contract.objects.for_tenants(scope.tenant_ids).filter(lasts_beyond(timezone.now()))
        latest_first = open_ones.filter(deployment__in=guests).select_related("service_class").order_by("-valid_from")
        promised = {contract.deployment_id: contract.service_class for contract in latest_first}
    for row in rows:
        own = row not in guests
        row.shown_class = promised.get(row.id, row.service_class)  # type: ignore[attr-defined]
        row.access = "owner" if own else "contract"  # type: ignore[attr-defined]
        platforms = row.tenant_id == PLATFORM_TENANT or not own
        row.owner_kind = "platform" if platforms else "tenant"  # type: ignore[attr-defined]
        row.shown_tenant = row.tenant if own else _PLATFORM  # type: ignore[attr-defined]


def replicas(scope: Scope) -> ScopedQuerySet:
    return scope.of(Replica.objects).select_related("deployment", "node", "seat__slice__gpu")


def annotate_live(rows: Iterable[Replica]) -> None:
    """Sets ``shown_state``, ``shown_reason``, ``stale`` and ``stats`` on each, with one question to Redis."""
    rows = list(rows)
    living = [row for row in rows if row.ended_at is None]
    answers = _ask([key(row.id) for row in living for key in (names.alive, names.stats)])
    now = timezone.now()
    for row in rows:
        _set_shown(row, row.state, row.reason, False, None)
    for number, row in enumerate(living):
        if answers is None:
            _set_shown(row, row.state, row.reason, True, None)
            continue
        alive, stats = answers[2 * number : 2 * number + 2]
        lost = alive is None and is_overdue(row, now)
        state, reason = (ReplicaState.LOST, LOST_REASON) if lost else (row.state, row.reason)
        _set_shown(row, state, reason, False, _parse(stats))


def is_overdue(row: Replica, now: datetime) -> bool:
    """Whether a missing key means anything: it was ready, and for longer than a first message takes."""
    was_ready = row.ready_at is not None and row.state in (ReplicaState.READY, ReplicaState.DRAINING)
    return was_ready and row.ready_at < now - timedelta(seconds=names.ALIVE_TTL_S)  # type: ignore[operator]


def summarize(rows: Sequence[Deployment]) -> None:
    """Sets ``summary`` on deployments read with ``deployments``."""
    annotate_live(replica for row in rows for replica in row.recent)  # type: ignore[attr-defined]
    for row in rows:
        row.summary = _summary(row, row.recent)  # type: ignore[attr-defined]


def log_lines(replica: Replica) -> list[str] | None:
    """The last lines that its agent sent, oldest first; None while Redis does not answer."""
    try:
        with _client() as client:
            lines: Any = client.lrange(names.log(replica.id), 0, names.LOG_LINES - 1)
    except redis.RedisError as error:
        log.warning("logs_not_read", extra={"error": str(error)})
        return None
    return [line.decode(errors="replace") for line in lines]


def _summary(row: Deployment, replicas: Sequence[Any]) -> Summary:
    living = [replica for replica in replicas if replica.ended_at is None]
    wanted = row.replica_count if row.desired_state == DesiredState.RUNNING else 0
    ready = sum(replica.shown_state == ReplicaState.READY for replica in living)
    waiting = [replica for replica in living if replica.shown_state != ReplicaState.READY]
    ended = [replica for replica in replicas if replica.ended_at is not None]
    broken = next((replica for replica in ended if replica.state in (ReplicaState.FAILED, ReplicaState.LOST)), None)
    idle = "stopping" if living else "stopped"
    state = _running_state(wanted, ready, waiting, broken) if wanted else idle
    reason = ""
    if state not in ("running", "stopped"):
        known = [*waiting, *([broken] if broken else [])]
        reason = next((replica.shown_reason for replica in known if replica.shown_reason), "")
    return Summary(wanted, ready, state, reason, any(replica.stale for replica in living))


def _running_state(wanted: int, ready: int, waiting: Sequence[Any], broken: Any) -> str:
    if ready >= wanted:
        return "running"
    if ready:
        return "degraded"
    failing = any(replica.shown_state in ENDED_STATES for replica in waiting)
    return "failed" if failing or (broken and not waiting) else "starting"


def _set_shown(row: Any, state: str, reason: str, stale: bool, stats: dict[str, Any] | None) -> None:
    row.shown_state, row.shown_reason, row.stale, row.stats = state, reason, stale, stats


def _ask(keys: list[str]) -> list[bytes | None] | None:
    """Values of ``keys``; None when Redis does not answer."""
    if not keys:
        return []
    try:
        with _client() as client:
            values: Any = client.mget(keys)
            return list(values)
    except redis.RedisError as error:
        log.warning("liveness_not_known", extra={"error": str(error)})
        return None


def _parse(value: bytes | None) -> dict[str, Any] | None:
    try:
        data = json.loads(value) if value else None
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
    )
