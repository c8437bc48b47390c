"""From conditions to alerts to messages, on a clock of the test's own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from berth.alerts import services
from berth.alerts.conditions import Condition
from berth.alerts.models import Alert, Delivery, DeliveryState, Rule, Severity, State
from berth.alerts.tasks import evaluate
from berth.core.errors import Conflict, Invalid
from helpers.factories import make_tenant, make_user

HOLD = timedelta(seconds=20)
URL = "https://hooks.example.com/berth"


def condition(subject: str = "one", tenant_id: str | None = None, **values: Any) -> Condition:
    given: dict[str, Any] = {
        "rule": Rule.CRASH_LOOP,
        "severity": Severity.CRITICAL,
        "subject_kind": "deployment",
        "subject_id": "dep_1",
        "subject_name": "chat",
        "summary": "It crashed.",
    }
    return Condition(subject=subject, tenant_id=tenant_id, **{**given, **values})


def see(now: datetime, *conditions: Condition) -> list[tuple[str, str]]:
    return [(row.subject, row.state) for row in services.take_conditions(conditions=conditions, now=now)]


@pytest.mark.django_db
def test_a_condition_fires_once_and_is_resolved_when_it_has_been_away() -> None:
    now = timezone.now()
    assert see(now, condition()) == [("one", State.FIRING)]
    assert see(now + timedelta(seconds=15), condition()) == []
    assert see(now + timedelta(seconds=30)) == []  # away for a moment: the same alert
    assert see(now + timedelta(seconds=45), condition()) == []
    assert see(now + timedelta(seconds=105)) == [("one", State.RESOLVED)]
    assert see(now + timedelta(seconds=120), condition()) == [("one", State.FIRING)]
    assert Alert.objects.for_platform().count() == 2


@pytest.mark.django_db
def test_what_must_hold_is_told_only_then_and_a_blind_time_counts_for_nothing() -> None:
    now = timezone.now()
    held = condition(hold=HOLD)
    assert see(now, held) == []
    assert see(now + timedelta(seconds=15)) == []
    assert Alert.objects.for_platform().count() == 0  # it went before anybody was told
    assert see(now + timedelta(seconds=30), held) == []
    assert see(now + timedelta(seconds=200), held) == []  # nobody looked for 170 s: it begins anew
    assert see(now + timedelta(seconds=225), held) == [("one", State.FIRING)]


@pytest.mark.django_db
def test_each_route_hears_what_is_its_owners_and_what_it_asked_for() -> None:
    mine, other = make_tenant(), make_tenant()
    routes = {
        "platform": services.create_route(tenant=None, kind="webhook", target=URL, actor="t"),
        "mine": services.create_route(tenant=mine, kind="webhook", target=URL, actor="t"),
        "other": services.create_route(tenant=other, kind="webhook", target=URL, actor="t"),
        "nodes": services.create_route(tenant=None, kind="webhook", target=URL, actor="t", events=[Rule.NODE_LOST]),
        "off": services.create_route(tenant=mine, kind="webhook", target=URL, actor="t", enabled=False),
    }
    names = {route.id: name for name, route in routes.items()}
    see(timezone.now(), condition("a", mine.id), condition("node", None, rule=Rule.NODE_LOST))
    sent = sorted((names[one.route_id], one.body["alert"]["rule"]) for one in Delivery.objects.all())
    assert sent == [
        ("mine", "replica.crash_loop"),
        ("nodes", "node.lost"),
        ("platform", "node.lost"),
        ("platform", "replica.crash_loop"),
    ]


@pytest.mark.django_db
def test_a_message_is_tried_six_times_with_growing_pauses() -> None:
    services.create_route(tenant=None, kind="webhook", target=URL, actor="t")
    see(timezone.now(), condition())
    delivery = Delivery.objects.get()
    pauses = []
    while delivery.state == DeliveryState.WAITING:
        services.note_attempt(delivery=delivery, error="the receiver answered 500")
        if delivery.state == DeliveryState.WAITING:
            pauses.append(round((delivery.due_at - timezone.now()).total_seconds()))
    assert pauses == [10, 60, 300, 1800, 7200]
    assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, 6)


@pytest.mark.django_db
def test_what_a_route_may_not_be() -> None:
    tenant = make_tenant()
    member = make_user(tenant=tenant)

    def refused(field: str | None, **values: Any) -> str:
        given = {"tenant": tenant, "kind": "webhook", "target": URL, "actor": "t"}
        with pytest.raises((Invalid, Conflict)) as caught:
            services.create_route(**{**given, **values})
        assert caught.value.field == field
        return caught.value.message

    for target in ("ftp://example.com", "https://", "https://u:p@example.com", "http://127.0.0.1:6379/", "http://[::1]/",
                   "https://169.254.169.254/latest", "http://localhost/", "http://[::ffff:10.0.0.1]/",
                   "https://exa mple.com/"):  # fmt: skip
        refused("target", target=target)
    refused("events", events=["node.lost"])  # the operators' affair
    refused("events", events=["nothing"])
    refused("target", kind="mail", target="not an address")
    assert "members" in refused("target", kind="mail", target="stranger@example.com")
    services.create_route(tenant=tenant, kind="mail", target=member.email, actor="t")
    for _ in range(services.ROUTES_A_TENANT - 1):
        services.create_route(tenant=tenant, kind="webhook", target=URL, actor="t")
    refused(None)


@pytest.mark.django_db
def test_the_task_runs_on_an_empty_house_and_leaves_no_alert() -> None:
    evaluate()
    assert Alert.objects.for_platform().count() == 0


@pytest.mark.django_db
def test_what_is_long_over_is_forgotten() -> None:
    services.create_route(tenant=None, kind="webhook", target=URL, actor="t")
    now = timezone.now()
    see(now, condition("old"), condition("open"))
    see(now + timedelta(minutes=5), condition("open"))
    services.forget_old(now=now + timedelta(days=89))
    assert Alert.objects.for_platform().count() == 2
    Delivery.objects.exclude(alert__subject="old").update(state=DeliveryState.DELIVERED)
    services.forget_old(now=now + timedelta(days=91))
    assert [row.subject for row in Alert.objects.for_platform()] == ["open"]
    assert Delivery.objects.count() == 0


class AnyOrderOfLooks(TestCase):
    """Whatever is seen when: one open alert a subject, and every firing one is announced once."""

    @given(st.lists(st.tuples(st.integers(1, 120), st.sets(st.sampled_from(["a", "b", "c"]))), min_size=1, max_size=12))
    def test_invariants(self, looks: list[tuple[int, set[str]]]) -> None:
        services.create_route(tenant=None, kind="webhook", target=URL, actor="t")
        now = timezone.now()
        for pause, subjects in looks:
            now += timedelta(seconds=pause)
            seen = [condition(subject) for subject in sorted(subjects)]
            services.take_conditions(conditions=seen, now=now)
            assert services.take_conditions(conditions=seen, now=now) == []  # twice is once
            rows = list(Alert.objects.for_platform())
            open_subjects = [row.subject for row in rows if row.state == State.FIRING]
            assert len(open_subjects) == len(set(open_subjects))
            assert subjects <= set(open_subjects)
        events = list(Delivery.objects.values_list("alert_id", "event"))
        assert len(events) == len(set(events))
        expected = {(row.id, "firing") for row in rows} | {
            (row.id, "resolved") for row in rows if row.state == State.RESOLVED
        }
        assert set(events) == expected
