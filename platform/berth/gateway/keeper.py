"""Keeps a gateway's snapshot fresh, in a thread of its own.

    database -> build() in the keeper's thread -> Keeper.current (one reference, swapped) -> every request

The old snapshot serves until the new one is whole, and for as long as the database is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import redis
from django.db import Error as AnyDatabaseError
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from berth.core.budgets import BUDGETS
from berth.core.secrets import replica_token, tenant_salt
from berth.core.version import current_version
from berth.deployments.models import Deployment, ReplicaState
from berth.deployments.models import Replica as ReplicaRow
from berth.gateway.auth import NEWBORN_S
from berth.gateway.snapshot import Budgets, Key, Limits, Replica, Route, Snapshot, Tier
from berth.live.names import CONFIG_CHANNEL
from berth.metering.owners import Owner, Spent
from berth.metering.records import UsageEvent
from berth.metering.spending import costs_of, spent
from berth.slas.costs import Prices, to_parts
from berth.slas.models import Contract, level_of
from berth.slas.prices import currency
from berth.slas.selectors import in_force, next_turn
from berth.tenants.models import RATE_LIMITS, ApiKey, KeyScope, Tenant
from gpuruntime.protocol import WhenLate

POLL_S = 0.5
REBUILD_S = 10.0
YOUNG = timedelta(seconds=2 * NEWBORN_S)

log = logging.getLogger(__name__)


def build() -> Snapshot:
    """Reads the version first: a change while the rows are read is then seen by the next poll."""
    version = current_version()
    turns = next_turn(Contract.objects.for_platform(), timezone.now())
    turns_at = None if turns is None else turns.timestamp()
    return Snapshot(version, _keys(), _routes(), _replicas(), _closed_keys(), turns_at)


def _keys() -> dict[str, Key]:
    """Columns, not objects: every gateway reads all keys again after each change, beside everyone's streams."""
    now = timezone.now()
    rows = ApiKey.objects.for_platform().filter(
        Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None, tenant__suspended_at=None
    )
    columns = rows.values_list(
        "id", "tenant_id", "digest", "pepper_id", "expires_at",
        "previous_digest", "previous_pepper_id", "previous_until", "scopes", "deployments",
        *RATE_LIMITS, *BUDGETS,
    )  # fmt: skip
    return {
        id: Key(
            id=id,
            tenant_id=tenant_id,
            digest=digest,
            pepper_id=pepper_id,
            expires_at=expires_at.timestamp() if expires_at else None,
            previous=(previous, previous_pepper, previous_until.timestamp()) if previous_until else None,
            inference=KeyScope.INFERENCE in scopes,
            deployments=frozenset(deployments),
            limits=_limits(*limits),
        )
        for (
            id, tenant_id, digest, pepper_id, expires_at,
            previous, previous_pepper, previous_until, scopes, deployments, *limits,
        ) in columns
    }  # fmt: skip


def _closed_keys() -> frozenset[str]:
    """By their own marks, not by their absence from ``_keys``: one may have been made between the two reads."""
    now = timezone.now()
    closed = Q(revoked_at__isnull=False) | Q(expires_at__lte=now) | Q(tenant__suspended_at__isnull=False)
    lately = ApiKey.objects.for_platform().filter(closed, created_at__gt=now - YOUNG)
    return frozenset(lately.values_list("id", flat=True))


def _routes() -> dict[tuple[str, str], Route]:
    """Contracts first, then the tenant's own deployments: its own name wins over one it was given."""
    open_contracts = (
        in_force(Contract.objects.for_platform(), timezone.now())
        .select_related("deployment", "service_class", "tenant")
        .order_by("valid_until", "version")
    )
    unit = currency()
    routes: dict[tuple[str, str], Route] = {}
    by_deployment: dict[tuple[str, str], Route] = {}
    for row in open_contracts:
        route = Route(
            tenant_id=row.tenant_id,
            model=row.deployment.name,
            deployment_id=row.deployment_id,
            class_name=row.service_class.name,
            level=row.level(),
            contract_id=row.id,
            contract_version=row.version,
            limits=Limits(
                row.guaranteed_requests_per_min,
                row.guaranteed_tokens_per_min,
                row.max_concurrency,
                row.burst_requests_per_min,
                row.burst_tokens_per_min,
                budgets=_budgets(row),
            ),
            tenant_limits=_tenant_limits(row.tenant),
            admits_uncounted=row.tenant.admits_uncounted,
            weight=float(row.weight * row.tenant.weight),
            when_late=cast(WhenLate, row.when_late),
            salt=tenant_salt(row.tenant_id),
            default_max_tokens=row.deployment.default_max_tokens,
            created=int(row.deployment.created_at.timestamp()),
            owned=row.deployment.tenant_id == row.tenant_id,
            prices=Prices.of(row.terms or row.service_class.terms(), unit),
            tiers={name: _tier(kept, unit) for name, kept in row.tiers.items()},
        )
        by_deployment[row.tenant_id, row.deployment_id] = route
        held = routes.get((row.tenant_id, route.model))
        if held is None or not held.owned:
            routes[row.tenant_id, route.model] = route
    for own in Deployment.objects.for_platform().select_related("service_class", "tenant"):
        routes[own.tenant_id, own.name] = by_deployment.get((own.tenant_id, own.id)) or Route(
            tenant_id=own.tenant_id,
            model=own.name,
            deployment_id=own.id,
            class_name=own.service_class.name,
            level=own.service_class.level(),
            tenant_limits=_tenant_limits(own.tenant),
            admits_uncounted=own.tenant.admits_uncounted,
            weight=float(own.tenant.weight),
            salt=tenant_salt(own.tenant_id),
            default_max_tokens=own.default_max_tokens,
            created=int(own.created_at.timestamp()),
            prices=Prices.of(own.service_class.terms(), unit),
        )
    return routes


def _tier(kept: Mapping[str, Any], unit: str) -> Tier:
    return Tier(kept["class"], level_of(kept["terms"]), Prices.of(kept["terms"], unit))


def _tenant_limits(tenant: Tenant) -> Limits:
    return _limits(*(getattr(tenant, name) for name in (*RATE_LIMITS, *BUDGETS)))


def _limits(
    requests: int | None, tokens: int | None, concurrency: int | None, *budgets: int | Decimal | None
) -> Limits:
    return Limits(requests, tokens, concurrency, budgets=Budgets(*map(_parts, budgets)))


def _budgets(row: Contract) -> Budgets:
    return Budgets(*(_parts(getattr(row, name)) for name in BUDGETS))


def _parts(amount: int | Decimal | None) -> int | None:
    """Tokens as they are, money in the whole numbers it is counted in."""
    return to_parts(amount) if isinstance(amount, Decimal) else amount


def _replicas() -> dict[str, tuple[Replica, ...]]:
    rows = (
        ReplicaRow.objects.for_platform()
        .filter(state__in=[ReplicaState.LOADING, ReplicaState.READY], port__gt=0, run=True, ended_at=None)
        .exclude(node=None)
        .select_related("node", "deployment")
        .order_by("id")
    )
    found: dict[str, tuple[Replica, ...]] = {}
    for row in rows:
        address = row.node.address if row.node is not None else ""
        host = f"[{address}]" if ":" in address else address
        replica = Replica(
            id=row.id,
            url=f"http://{host}:{row.port}",
            token=replica_token(row.id),
            capacity=row.deployment.max_num_seqs,
            ready=row.state == ReplicaState.READY,
        )
        found[row.deployment_id] = (*found.get(row.deployment_id, ()), replica)
    return found


class Keeper:
    """Keeps ``current`` fresh in its own thread: on a push, a new version, a contract's turn, every ten seconds."""

    def __init__(self, redis_url: str, on_change: Callable[[Snapshot], None]) -> None:
        self.current = Snapshot()
        self._redis_url = redis_url
        self._on_change = on_change
        self._stop = threading.Event()
        self._built_s = 0.0
        self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def spent(self, owner: Owner, since: datetime, leaving_out: Sequence[str]) -> Spent:
        """In a thread of the caller's."""
        try:
            return spent(owner, since, leaving_out)
        finally:
            connection.close()

    def costs(self, events: Sequence[UsageEvent]) -> list[Decimal]:
        try:
            return costs_of(events)
        finally:
            connection.close()

    def join(self, timeout_s: float = 3.0) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                client = redis.Redis.from_url(self._redis_url, socket_timeout=2, socket_connect_timeout=1)
                with client, client.pubsub(ignore_subscribe_messages=True) as pushes:  # type: ignore[no-untyped-call]
                    pushes.subscribe(CONFIG_CHANNEL)
                    self._follow(pushes)
            except redis.RedisError as error:
                log.info("config_push_away", extra={"error": str(error)})
                self._refresh(pushed=False)
                self._stop.wait(POLL_S)

    def _follow(self, pushes: redis.client.PubSub) -> None:
        self._refresh(pushed=True)
        while not self._stop.is_set():
            message = pushes.get_message(timeout=POLL_S)
            while message is not None and pushes.get_message(timeout=0.0) is not None:
                pass  # a burst of pushes is one rebuild
            self._refresh(pushed=message is not None)

    def _refresh(self, *, pushed: bool) -> None:
        try:
            turns_at = self.current.turns_at
            turned = turns_at is not None and time.time() >= turns_at
            stale = pushed or turned or time.monotonic() - self._built_s > REBUILD_S
            if stale or current_version() != self.current.version:
                fresh = build()
                self._built_s = time.monotonic()
                self.current = fresh
                self._on_change(fresh)
        except AnyDatabaseError as error:  # a lost connection may say InterfaceError, which is no DatabaseError
            log.warning("snapshot_not_refreshed", extra={"error": str(error).strip()})
        finally:
            connection.close()
