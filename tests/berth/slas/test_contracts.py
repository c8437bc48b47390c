"""Versions in time: what is in force when, what was replaced, and what a class's change does to its contracts."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from berth.audit.models import AuditEvent
from berth.core.errors import Conflict, Invalid
from berth.gateway.keeper import build
from berth.slas.models import Contract, ServiceClass
from berth.slas.selectors import in_force, with_state
from berth.slas.services import (
    change_class,
    change_contract,
    create_class,
    delete_class,
    end_contract,
    ensure_default_classes,
    grant_contract,
)
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_tenant, unique

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def granted(**values: Any) -> Contract:
    given = {
        "tenant": make_tenant(),
        "deployment": make_deployment(),
        "service_class": ensure_default_classes()["chat"],
    }
    return grant_contract(**given | values, actor="t")


def versions_at(contract: Contract, at: datetime) -> list[int]:
    rows = in_force(Contract.objects.for_tenant(contract.tenant_id), at)
    return [row.version for row in rows.filter(deployment_id=contract.deployment_id)]


def states(contract: Contract) -> list[tuple[int, str]]:
    now = timezone.now()
    rows = list(Contract.objects.for_tenant(contract.tenant_id).filter(deployment_id=contract.deployment_id))
    for state in ("scheduled", "current", "ended", "replaced"):
        found = with_state(Contract.objects.for_tenant(contract.tenant_id), now, state)
        assert {row.id for row in found if row.deployment_id == contract.deployment_id} == {
            row.id for row in rows if row.state(now) == state
        }
    return sorted((row.version, row.state(now)) for row in rows)


def test_a_change_in_an_hour_holds_from_then_on() -> None:
    now, old = timezone.now(), granted()
    new = change_contract(contract=old, actor="t", weight=5, valid_from=now + HOUR)
    assert states(old) == [(1, "current"), (2, "scheduled")]
    assert versions_at(old, now + HOUR - timedelta(microseconds=1)) == [1]
    assert versions_at(old, now + HOUR) == [2]
    assert new.weight == 5
    with pytest.raises(Conflict, match="Version 2 of this contract is scheduled"):
        change_contract(contract=old, actor="t", weight=6)


def test_what_becomes_of_late_requests_is_a_term_of_the_version() -> None:
    old = granted()
    new = change_contract(contract=old, actor="t", when_late="refuse")
    kept = change_contract(contract=new, actor="t", weight=3)
    assert [contract.when_late for contract in (old, new, kept)] == ["queue", "refuse", "refuse"]
    with pytest.raises(Invalid, match="when_late is one of queue, degrade, refuse"):
        change_contract(contract=kept, actor="t", when_late="drop")


def test_a_scheduled_version_may_change_and_move_before_it_holds() -> None:
    now, old = timezone.now(), granted()
    second = change_contract(contract=old, actor="t", weight=5, valid_from=now + HOUR)
    third = change_contract(contract=second, actor="t", weight=6)
    assert (third.valid_from, third.version) == (second.valid_from, 3)
    fourth = change_contract(contract=third, actor="t", valid_from=now + 2 * HOUR)
    assert states(old) == [(1, "current"), (2, "replaced"), (3, "replaced"), (4, "scheduled")]
    assert versions_at(old, now + 1.5 * HOUR) == [1]
    assert versions_at(old, now + 2 * HOUR) == [4]
    assert fourth.weight == 6
    with pytest.raises(Conflict):
        change_contract(contract=second, actor="t", weight=7)


def test_ending_a_scheduled_version_lets_the_one_before_go_on() -> None:
    now, old = timezone.now(), granted()
    end_contract(contract=change_contract(contract=old, actor="t", weight=5, valid_from=now + HOUR), actor="t")
    assert states(old) == [(1, "current"), (2, "replaced")]
    assert versions_at(old, now + 9 * HOUR) == [1]
    assert change_contract(contract=old, actor="t", weight=2).version == 3


def test_ending_the_current_one_ends_what_was_to_follow() -> None:
    now, old = timezone.now(), granted()
    change_contract(contract=old, actor="t", weight=5, valid_from=now + HOUR)
    end_contract(contract=old, actor="t")
    assert states(old) == [(1, "ended"), (2, "replaced")]
    assert versions_at(old, now + 9 * HOUR) == []
    again = grant_contract(tenant=old.tenant, deployment=old.deployment, service_class=old.service_class, actor="t")
    assert again.version == 3


def test_it_may_end_at_a_time_to_come_and_another_may_follow() -> None:
    now, old = timezone.now(), granted()
    given = {"tenant": old.tenant, "deployment": old.deployment, "service_class": old.service_class, "actor": "t"}
    end_contract(contract=old, actor="t", at=now + HOUR)
    with pytest.raises(Conflict, match="has a contract"):
        grant_contract(**given, valid_from=now + HOUR / 2)
    following = grant_contract(**given, valid_from=now + HOUR)
    end_contract(contract=following, actor="t")
    assert versions_at(old, now + 2 * HOUR) == []  # withdrawn: what was to end still ends
    with pytest.raises(Conflict, match="This contract ends at"):
        change_contract(contract=old, actor="t", weight=2)


def test_what_is_past_cannot_be_promised() -> None:
    with pytest.raises(Invalid) as refused:
        granted(valid_from=timezone.now() - HOUR)
    assert refused.value.field == "valid_from"
    with pytest.raises(Invalid, match="A burst needs a guaranteed rate"):
        granted(burst_tokens_per_min=5)
    old = granted(guaranteed_tokens_per_min=10, burst_tokens_per_min=5)
    with pytest.raises(Invalid):
        change_contract(contract=old, actor="t", guaranteed_tokens_per_min=None)


def test_the_gateway_takes_what_is_in_force_and_knows_the_next_turn() -> None:
    deployment = make_deployment(name=unique("shared"))
    tenant, now = make_tenant(), timezone.now()
    later = granted(tenant=tenant, deployment=deployment, valid_from=now + HOUR, guaranteed_requests_per_min=7)
    snapshot = build()
    assert (tenant.id, deployment.name) not in snapshot.routes
    assert snapshot.turns_at is not None
    assert snapshot.turns_at <= later.valid_from.timestamp()

    Contract.objects.for_tenant(tenant.id).update(valid_from=now - HOUR)
    route = build().routes[tenant.id, deployment.name]
    assert (route.contract_id, route.limits.requests_per_min) == (later.id, 7)
    end_contract(contract=later, actor="t")
    assert (tenant.id, deployment.name) not in build().routes


def test_a_class_that_changes_renews_its_contracts_and_no_version_changes() -> None:
    service_class = create_class(name="gold", actor="t", base_ms=500, tpot_ms=50)
    now = timezone.now()
    running = granted(service_class=service_class, weight=3)
    scheduled = granted(service_class=service_class, valid_from=now + HOUR)
    other = granted()
    both = granted(service_class=service_class)
    follower = change_contract(contract=both, actor="t", weight=9, valid_from=now + HOUR)
    change_class(service_class=service_class, actor="t", base_ms=300, price_output=Decimal("2.5"))

    def terms(contract: Contract) -> list[tuple[int, int, str, int]]:
        rows = Contract.objects.for_tenant(contract.tenant_id).order_by("version")
        rows = rows.filter(deployment_id=contract.deployment_id)
        return [(row.version, row.terms["base_ms"], row.terms["price_output"], row.weight) for row in rows]

    assert terms(running) == [(1, 500, "0.0000", 3), (2, 300, "2.5000", 3)]
    assert terms(scheduled) == [(1, 300, "2.5000", 1)]
    assert terms(other) == [(1, 1000, "0.0000", 1)]
    assert states(both) == [(1, "ended"), (2, "scheduled"), (3, "current")]
    end_contract(contract=follower, actor="t")
    assert versions_at(both, now + 9 * HOUR) == [3]
    assert build().routes[running.tenant_id, running.deployment.name].level.base_ms == 300
    events = AuditEvent.objects.for_platform().filter(action="contract.renew")
    assert events.count() == 2
    change_class(service_class=service_class, actor="t", description="Better")
    assert len(terms(running)) == 2


def test_a_class_that_was_ever_promised_stays() -> None:
    unused, used = create_class(name="unused", actor="t"), create_class(name="used", actor="t")
    end_contract(contract=granted(service_class=used), actor="t")
    with pytest.raises(Conflict, match="1 contract version"):
        delete_class(service_class=used, actor="t")
    with pytest.raises(Conflict, match="1 deployment and 1 contract version"):
        delete_class(
            service_class=make_deployment(service_class=create_class(name="y", actor="t")).service_class, actor="t"
        )
    delete_class(service_class=unused, actor="t")
    assert not ServiceClass.objects.filter(name="unused").exists()


def test_over_rest_from_class_to_history() -> None:
    world = World()
    operator = world.client("operator")
    made = operator.post(
        url("classes"),
        {"name": "gold", "base_ms": 400, "tpot_ms": 60, "price_per_million": {"input": "0.25", "output": 1.5}},
        format="json",
    )
    assert made.status_code == 201, made.content
    assert made.json()["price_per_million"] == {"input": "0.2500", "cached": "0.0000", "output": "1.5000"}
    assert (made.json()["currency"], made.json()["contracts_open"]) == ("USD", 0)
    deployment = make_deployment()
    body = {
        "tenant": world.tenant.id,
        "deployment": deployment.id,
        "service_class": "gold",
        "burst_requests_per_min": 5,
    }
    problem(operator.post(url("contracts"), body, format="json"), 400, "burst_requests_per_min")
    contract = operator.post(url("contracts"), body | {"guaranteed_requests_per_min": 60}, format="json").json()
    assert (contract["state"], contract["terms"]["base_ms"], contract["version"]) == ("current", 400, 1)
    at = (timezone.now() + HOUR).isoformat()
    second = operator.patch(url("contracts", contract["id"]), {"weight": 4, "valid_from": at}, format="json").json()
    assert (second["state"], second["version"], second["weight"]) == ("scheduled", 2, 4)

    viewer = world.client("viewer")
    history = viewer.get(url("contracts", contract["id"], "versions")).json()
    assert [(row["version"], row["state"]) for row in history] == [(2, "scheduled"), (1, "current")]
    assert [r["version"] for r in viewer.get(url("contracts") + "?state=scheduled").json()["results"]] == [2]
    problem(world.client("outsider").get(url("contracts", contract["id"], "versions")), 404)
    problem(viewer.post(url("contracts", contract["id"], "end"), {}, format="json"), 403)
    ended = operator.post(url("contracts", contract["id"], "end"), {"at": at}, format="json").json()
    assert (ended["state"], ended["valid_until"][:19]) == ("current", at[:19])
    problem(operator.delete(url("classes", made.json()["id"])), 409)
    problem(
        operator.patch(url("classes", made.json()["id"]), {"stretch_tpot_ms": 70}, format="json"),
        400,
        "stretch_tpot_ms",
    )
