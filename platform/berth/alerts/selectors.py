"""Reads of alerts and routes."""

from __future__ import annotations

from django.db.models import OuterRef, QuerySet, Subquery

from berth.alerts.models import Alert, Delivery, DeliveryState, Route, State
from berth.core.scoping import Scope, ScopedQuerySet


def alerts(scope: Scope) -> ScopedQuerySet:
    """Firing and past ones. A condition that has not held for long enough is nobody's news."""
    return scope.of(Alert.objects).exclude(state=State.PENDING).select_related("tenant")


def routes(scope: Scope) -> ScopedQuerySet:
    """Each with ``last_state``, ``last_error`` and ``last_at`` of its newest delivery."""
    newest = Delivery.objects.filter(route=OuterRef("pk")).order_by("-id")
    return (
        scope.of(Route.objects)
        .select_related("tenant")
        .annotate(
            last_state=Subquery(newest.values("state")[:1]),
            last_error=Subquery(newest.values("error")[:1]),
            last_at=Subquery(newest.values("created_at")[:1]),
            last_event=Subquery(newest.values("event")[:1]),
        )
    )


def due(now: object) -> QuerySet[Delivery]:
    """Deliveries to attempt now, oldest first."""
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now)
    return waiting.select_related("route").order_by("due_at", "id")
