"""Writes of routes, of alerts as conditions come and go, and of what is to be sent about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from berth.alerts import addresses, messages
from berth.alerts.conditions import Condition
from berth.alerts.models import Alert, Delivery, DeliveryState, Kind, Route, Rule, State
from berth.audit.services import changes, record
from berth.core.errors import BerthError, Conflict, Invalid
from berth.core.notify import enqueue
from berth.core.scoping import Scope
from berth.tenants.models import Membership, Tenant

ROUTES_A_TENANT = 20
TEST_EVERY = timedelta(seconds=10)
# An evaluation comes every 15 s. After a longer pause nobody looked, and a pending condition begins anew.
BLIND = timedelta(seconds=60)
# A condition that comes and goes is one alert: it is resolved once it has not held for this long.
QUIET = timedelta(seconds=60)
PLATFORM_ONLY = frozenset({Rule.NODE_LOST, Rule.GPU_UNHEALTHY})
DELIVER = "berth.alerts.tasks.deliver"


class TooSoon(BerthError):
    code = "too_soon"
    status = 429


# --- routes -----------------------------------------------------------------------------------------------------


@transaction.atomic
def create_route(
    *,
    tenant: Tenant | None,
    kind: str,
    target: str,
    actor: str,
    events: Sequence[str] = (),
    name: str = "",
    enabled: bool = True,
) -> Route:
    """Raises ``Invalid`` naming the field for a target that cannot be or may not be reached."""
    check_target(tenant, kind, target)
    check_events(tenant, events)
    of_owner = Route.objects.for_platform().filter(tenant=tenant)
    if of_owner.count() >= ROUTES_A_TENANT:
        raise Conflict(f"There are {ROUTES_A_TENANT} routes already, the most one owner may have; delete one first")
    route: Route = Route.objects.create(
        tenant=tenant, kind=kind, target=target, events=list(events), name=name, enabled=enabled
    )
    after = {"kind": kind, "target": shown_target(route), "events": list(events), "enabled": enabled}
    record(actor=actor, action="alert_route.create", obj=route, after=after)
    return route


@transaction.atomic
def change_route(*, route: Route, actor: str, **values: Any) -> Route:
    """``values``: name, target, events, enabled."""
    route = locked(route)
    if "target" in values:
        check_target(route.tenant, route.kind, values["target"])
    if "events" in values:
        check_events(route.tenant, values["events"])
    before, after = changes(route, values)
    if after:
        for field, value in after.items():
            setattr(route, field, value)
        route.save(update_fields=[*after, "updated_at"])
        record(actor=actor, action="alert_route.change", obj=route, before=masked(before), after=masked(after))
    return route


@transaction.atomic
def delete_route(*, route: Route, actor: str) -> None:
    record(
        actor=actor,
        action="alert_route.delete",
        obj=route,
        before={"kind": route.kind, "target": shown_target(route), "events": route.events},
    )
    scope_of(route).of(Route.objects).filter(id=route.id).delete()


@transaction.atomic
def test_route(*, route: Route, actor: str) -> Delivery:
    """Sends one message that says it is a test. Raises ``TooSoon`` within ten seconds of the last."""
    route = locked(route)
    now = timezone.now()
    if route.deliveries.filter(event="test", created_at__gt=now - TEST_EVERY).exists():
        raise TooSoon(f"A test was sent a moment ago; the next may follow after {TEST_EVERY.seconds} s")
    delivery = Delivery.objects.create(route=route, event="test", body=messages.test_body(route, now), due_at=now)
    record(actor=actor, action="alert_route.test", obj=route, after={"delivery": delivery.id})
    enqueue(DELIVER, expires=60)
    return delivery


def locked(route: Route) -> Route:
    found: Route = scope_of(route).of(Route.objects).select_for_update(of=("self",)).get(id=route.id)
    return found


def scope_of(route: Route) -> Scope:
    return Scope(None if route.tenant_id is None else (route.tenant_id,))


def shown_target(route: Route) -> str:
    return masked({"target": route.target})["target"]


def masked(values: dict[str, Any]) -> dict[str, Any]:
    """A webhook's path and query often are its password: the audit log keeps scheme and host."""
    if "target" not in values:
        return values
    return {**values, "target": addresses.without_path(str(values["target"]))}


def check_target(tenant: Tenant | None, kind: str, target: str) -> None:
    if kind == Kind.WEBHOOK:
        addresses.check_url(target)
        return
    if not messages.mail_is_set_up():
        raise Invalid("Mail is not set up on this installation: it needs BERTH_SMTP_URL", field="kind")
    try:
        validate_email(target)
    except ValidationError as error:
        raise Invalid(f"{target!r} is not an e-mail address", field="target") from error
    if tenant is not None:
        members = Membership.objects.for_tenant(tenant.id).filter(user__email__iexact=target)
        if not members.exists():
            raise Invalid("A tenant's alerts are mailed to its members only", field="target")


def check_events(tenant: Tenant | None, events: Sequence[str]) -> None:
    allowed = [rule for rule in Rule if tenant is None or rule not in PLATFORM_ONLY]
    for event in events:
        if event not in allowed:
            raise Invalid(f"{event!r}: expected some of {', '.join(allowed)}", field="events")


# --- alerts -----------------------------------------------------------------------------------------------------


@transaction.atomic
def take_conditions(*, conditions: Iterable[Condition], now: Any) -> list[Alert]:
    """What holds at ``now``, all of it; the alerts that changed their state. Running it twice changes nothing."""
    open_rows = Alert.objects.for_platform().exclude(state=State.RESOLVED).select_for_update(of=("self",))
    known: dict[tuple[str, str], Alert] = {(row.rule, row.subject): row for row in open_rows}
    moved: list[Alert] = []
    held = set()
    for condition in conditions:
        held.add(condition.key)
        row = known.get(condition.key) or Alert(rule=condition.rule, subject=condition.subject, state=State.PENDING)
        if row._state.adding or (row.state == State.PENDING and now - row.seen_at > BLIND):
            row.since = now
        _describe(row, condition)
        row.seen_at = now
        if row.state == State.PENDING and now - row.since >= condition.hold:
            row.state, row.fired_at = State.FIRING, now
            moved.append(row)
        row.save()
    for key, row in known.items():
        if key in held:
            continue
        if row.state == State.PENDING:
            row.delete()
        elif now - row.seen_at >= QUIET:
            row.state, row.resolved_at = State.RESOLVED, now
            row.save(update_fields=["state", "resolved_at"])
            moved.append(row)
    for row in moved:
        _post(row, now)
    if moved:
        enqueue(DELIVER, expires=60)
    return moved


def _describe(row: Alert, condition: Condition) -> None:
    row.severity = condition.severity
    row.tenant_id = condition.tenant_id
    row.subject_kind, row.subject_id = condition.subject_kind, condition.subject_id
    row.subject_name = condition.subject_name[:160]
    row.summary, row.values = condition.summary[:400], dict(condition.values)


def _post(row: Alert, now: Any) -> None:
    """One delivery for each route that asked for this: the owner's and the operators'."""
    whose = Q(tenant=None) if row.tenant_id is None else Q(tenant=None) | Q(tenant=row.tenant_id)
    routes = [
        route
        for route in Route.objects.for_platform().filter(whose, enabled=True)
        if not route.events or row.rule in route.events
    ]
    body = messages.alert_body(row)
    Delivery.objects.bulk_create(
        [Delivery(route=route, alert=row, event=row.state, body=body, due_at=now) for route in routes],
        ignore_conflicts=True,
    )


KEEP_ALERTS = timedelta(days=90)
KEEP_DELIVERIES = timedelta(days=30)


def forget_old(*, now: Any) -> None:
    """Alerts that were resolved three months ago, and messages of over a month."""
    Alert.objects.for_platform().filter(state=State.RESOLVED, resolved_at__lt=now - KEEP_ALERTS).delete()
    Delivery.objects.filter(created_at__lt=now - KEEP_DELIVERIES).exclude(state=DeliveryState.WAITING).delete()


# --- deliveries -------------------------------------------------------------------------------------------------

PAUSES_S = (10, 60, 300, 1800, 7200)


def note_attempt(*, delivery: Delivery, error: str, final: bool = False) -> None:
    """After an attempt; ``error`` empty: it arrived. Tried six times over some two and a half hours."""
    delivery.attempts += 1
    delivery.error = error[:300]
    now = timezone.now()
    if not error:
        delivery.state, delivery.ended_at = DeliveryState.DELIVERED, now
    elif final or delivery.attempts > len(PAUSES_S):
        delivery.state, delivery.ended_at = DeliveryState.FAILED, now
    else:
        delivery.due_at = now + timedelta(seconds=PAUSES_S[delivery.attempts - 1])
    delivery.save(update_fields=["attempts", "error", "state", "due_at", "ended_at"])
