"""What a gateway knows of the platform: immutable, whole, and built away from the requests that read it.

Pure data; ``gateway.keeper`` builds it from the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from berth.slas.costs import FREE, Prices
from gpuruntime.goodput import ServiceLevel
from gpuruntime.protocol import WhenLate

DEFAULT_TIER = "default"


class Budgets(NamedTuple):
    """What may be used in a calendar day and month of UTC: tokens in and out, and their cost in 1e-10 of the
    currency's unit. None: no such budget."""

    tokens_per_day: int | None = None
    cost_per_day: int | None = None
    tokens_per_month: int | None = None
    cost_per_month: int | None = None


NO_BUDGETS = Budgets()


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no such limit. The rates are guaranteed; a burst may pass in a minute beyond them while a door has room."""

    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    max_concurrency: int | None = None
    burst_requests_per_min: int = 0
    burst_tokens_per_min: int = 0
    budgets: Budgets = NO_BUDGETS

    @property
    def any(self) -> bool:
        found = (self.requests_per_min, self.tokens_per_min, self.max_concurrency, *self.budgets)
        return any(limit is not None for limit in found)

    @property
    def bursts(self) -> bool:
        return bool(self.burst_requests_per_min or self.burst_tokens_per_min)

    def ceilings(self, *, room: bool) -> tuple[int | None, int | None]:
        """Requests and tokens that may pass in a minute, with the bursts where there is ``room`` for them."""
        requests, tokens = self.requests_per_min, self.tokens_per_min
        if not room:
            return requests, tokens
        return (
            None if requests is None else requests + self.burst_requests_per_min,
            None if tokens is None else tokens + self.burst_tokens_per_min,
        )


@dataclass(frozen=True, slots=True)
class Key:
    """One usable API key; ``expires_at`` is Unix time.

    ``previous``: (digest, pepper id, until) of the secret before a rotation. ``deployments``: the ids it may use,
    empty for all of its tenant's. Without ``inference`` it opens nothing here.
    """

    id: str
    tenant_id: str
    digest: str
    pepper_id: str
    expires_at: float | None
    previous: tuple[str, str, float] | None = None
    inference: bool = True
    deployments: frozenset[str] = frozenset()
    limits: Limits = Limits()

    def may_use(self, deployment_id: str) -> bool:
        return not self.deployments or deployment_id in self.deployments


@dataclass(frozen=True, slots=True)
class Tier:
    """A class that a contract allows beside its own: what ``service_tier`` picks."""

    class_name: str
    level: ServiceLevel
    prices: Prices = FREE


@dataclass(frozen=True, slots=True)
class Route:
    """One model name as one tenant sees it: the deployment behind it and what was promised.

    ``limits``: the contract's; ``tenant_limits``: over all of the tenant's models. ``admits_uncounted``: whether
    requests under limits pass while nothing can count them. ``tier``: OpenAI's word for its class;
    ``tiers``: the classes beside it.
    """

    tenant_id: str
    model: str
    deployment_id: str
    class_name: str
    level: ServiceLevel
    contract_id: str = ""
    contract_version: int = 0
    limits: Limits = Limits()
    tenant_limits: Limits = Limits()
    admits_uncounted: bool = True
    weight: float = 1.0
    when_late: WhenLate = "queue"
    salt: str = ""
    default_max_tokens: int = 512
    created: int = 0
    owned: bool = True
    tier: str = DEFAULT_TIER
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    prices: Prices = FREE

    def at(self, tier: str) -> Route:
        """The same model and contract under the class that ``tier`` names."""
        allowed = self.tiers[tier]
        return replace(self, class_name=allowed.class_name, level=allowed.level, prices=allowed.prices, tier=tier)


@dataclass(frozen=True, slots=True)
class Replica:
    """One door. ``ready``: what its row says; what answers decides."""

    id: str
    url: str
    token: str
    capacity: int
    ready: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``closed_keys``: made a moment ago and already of no use, as far as ``auth`` would else wait for them.

    ``turns_at``: Unix time at which the next version of a contract begins or one ends, by itself.
    """

    version: int = -1
    keys: Mapping[str, Key] = field(default_factory=dict)
    routes: Mapping[tuple[str, str], Route] = field(default_factory=dict)
    replicas: Mapping[str, tuple[Replica, ...]] = field(default_factory=dict)
    closed_keys: frozenset[str] = frozenset()
    turns_at: float | None = None

    def models_of(self, tenant_id: str) -> list[Route]:
        found = [route for (tenant, _), route in self.routes.items() if tenant == tenant_id]
        return sorted(found, key=lambda route: route.model)
