"""Reads of service classes and contracts."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Case, CharField, Count, F, Min, Q, QuerySet, Value, When
from django.utils import timezone

from berth.core.scoping import Scope, ScopedQuerySet
from berth.slas.models import Contract, ServiceClass


def classes() -> QuerySet[ServiceClass]:
    """With ``contracts_open``: how many contracts name each, in force or scheduled."""
    lasting = lasts_beyond(timezone.now(), of="contracts__")
    return ServiceClass.objects.annotate(contracts_open=Count("contracts", filter=lasting))


def contracts(scope: Scope) -> ScopedQuerySet:
    """Every version; the open ones have no ``valid_until``."""
    return scope.of(Contract.objects).select_related("service_class", "deployment", "tenant")


def lasts_beyond(moment: datetime, *, of: str = "") -> Q:
    """Contracts that are not over then: in force, or to come. ``of``: the path to them."""
    return Q(**{f"{of}valid_until": None}) | Q(**{f"{of}valid_until__gt": moment})


def in_force(rows: ScopedQuerySet, now: datetime) -> ScopedQuerySet:
    return rows.filter(lasts_beyond(now), valid_from__lte=now)


def next_turn(rows: ScopedQuerySet, now: datetime) -> datetime | None:
    """When the next version among ``rows`` begins or ends by itself."""
    begins = rows.filter(valid_from__gt=now).aggregate(at=Min("valid_from"))["at"]
    ends = rows.filter(valid_until__gt=now).aggregate(at=Min("valid_until"))["at"]
    return min((at for at in (begins, ends) if at is not None), default=None)


def with_state(rows: ScopedQuerySet, now: datetime, state: str) -> ScopedQuerySet:
    """Those whose ``Contract.state`` is ``state``."""
    replaced = When(valid_until__lte=F("valid_from"), then=Value("replaced"))
    scheduled = When(valid_from__gt=now, then=Value("scheduled"))
    ended = When(valid_until__lte=now, then=Value("ended"))
    case = Case(replaced, scheduled, ended, default=Value("current"), output_field=CharField())
    return rows.annotate(state_now=case).filter(state_now=state)


def versions(scope: Scope, contract: Contract) -> ScopedQuerySet:
    """All of the contract's tenant on its deployment, newest first."""
    rows = contracts(scope).filter(tenant_id=contract.tenant_id, deployment_id=contract.deployment_id)
    return rows.order_by("-version")
