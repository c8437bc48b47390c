"""Who has budgets, and how much of them is used: what is booked, so a few seconds behind what admission counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q
from django.utils import timezone

from berth.core.budgets import BUDGETS, Budgeted
from berth.core.periods import DAY_S, day_of, month_of
from berth.core.scoping import Scope
from berth.metering.summaries import Span, summarize
from berth.slas.models import Contract
from berth.slas.selectors import in_force
from berth.tenants.models import ApiKey, Tenant

KINDS = ("key", "tenant", "contract")
MOST = 1000
_GROUPS = {"key": ["key"], "tenant": ["tenant"], "contract": ["tenant", "deployment"]}


@dataclass(frozen=True, slots=True)
class Use:
    """One budget and what is used of it. ``amount`` and ``used``: tokens, or money in the platform's currency."""

    kind: str
    id: str
    tenant: str
    name: str
    unit: str
    period: str
    amount: Decimal
    used: Decimal
    begins_at: datetime
    ends_at: datetime


def budgets_in_use(scope: Scope, kind: str, now: datetime | None = None) -> tuple[list[Use], bool]:
    """Every budget of the ``MOST`` newest keys, tenants or contracts in force that have any; and whether more have."""
    holders = list(_holders(scope, kind)[: MOST + 1])
    if not holders:
        return [], False
    at = (now or timezone.now()).timestamp()
    spans = {"day": (day_of(at), day_of(at) + DAY_S), "month": (month_of(at), month_of(at, 1))}
    found: list[Use] = []
    for period, ends in spans.items():
        begins_at, ends_at = (datetime.fromtimestamp(second, UTC) for second in ends)
        used = _used(scope, kind, begins_at)
        for holder in holders[:MOST]:
            tenant, name, cell = _naming(kind, holder)
            for unit, amount in _amounts(holder, period):
                spent = used.get(cell, {}).get(unit, Decimal(0))
                found.append(Use(kind, holder.id, tenant, name, unit, period, amount, spent, begins_at, ends_at))
    return sorted(found, key=lambda use: (use.name, use.id, use.period, use.unit)), len(holders) > MOST


def _naming(kind: str, holder: Any) -> tuple[str, str, tuple[str, ...]]:
    """Its tenant, its name, and the cell of usage that is its own."""
    if kind == "key":
        return holder.tenant_id, holder.name, (holder.id,)
    if kind == "tenant":
        return holder.id, holder.name, (holder.id,)
    return holder.tenant_id, holder.deployment.name, (holder.tenant_id, holder.deployment_id)


def _holders(scope: Scope, kind: str) -> Any:
    has_any = Q()
    for name in BUDGETS:
        has_any |= Q(**{f"{name}__isnull": False})
    if kind == "key":
        rows: Any = scope.of(ApiKey.objects).filter(revoked_at=None)
    elif kind == "tenant":
        rows = Tenant.objects.all() if scope.tenant_ids is None else Tenant.objects.filter(id__in=scope.tenant_ids)
    else:
        rows = in_force(scope.of(Contract.objects), timezone.now()).select_related("deployment")
    return rows.filter(has_any).order_by("-id")


def _used(scope: Scope, kind: str, start: datetime) -> dict[tuple[str, ...], dict[str, Decimal]]:
    rows = summarize(Span(scope, start, None, {}), _GROUPS[kind])["rows"]
    return {
        tuple(part["key"] for part in row["by"]): {
            "tokens": Decimal(row["prompt_tokens"] + row["completion_tokens"]),
            "cost": row["cost"],
        }
        for row in rows
    }


def _amounts(holder: Budgeted, period: str) -> Iterator[tuple[str, Decimal]]:
    for unit in ("tokens", "cost"):
        amount = getattr(holder, f"{unit}_per_{period}")
        if amount is not None:
            yield unit, Decimal(amount)
