"""What is told of budgets: whose, how much is used since the day and the month began, and to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from berth.audit.models import AuditEvent
from berth.core.errors import Invalid
from berth.core.scoping import PLATFORM, Scope
from berth.metering.budgeted import budgets_in_use
from berth.slas.models import ServiceClass
from berth.slas.services import change_contract, grant_contract
from berth.tenants.models import Role, Tenant
from berth.tenants.services import change_tenant, create_key, revoke_key
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_tenant
from helpers.usage import book_record

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 7, 15, 12, 30, tzinfo=UTC)


def use(tenant: Tenant, days: float, tokens: int, cost: str, **values: Any) -> None:
    given = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "cost": Decimal(cost)} | values
    row = book_record(tenant.id, NOW - timedelta(days=days), **given)
    assert row.prompt_tokens == tokens - 1


def told(scope: Scope, kind: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    found, truncated = budgets_in_use(scope, kind, NOW)
    assert not truncated
    return {
        (one.name, one.period, one.unit): (f"{one.amount.normalize():f}", f"{one.used.normalize():f}") for one in found
    }


def test_each_holder_has_its_own_day_and_month() -> None:
    tenant, other = make_tenant("ours"), make_tenant("theirs")
    deployment = make_deployment(tenant=tenant, name="small")
    change_tenant(tenant=tenant, actor="test", tokens_per_day=1000, cost_per_month=Decimal("5.5"))
    change_tenant(tenant=other, actor="test", tokens_per_month=7)
    key, _ = create_key(tenant=tenant, name="ci", actor="test", tokens_per_day=100, tokens_per_month=900)
    gone, _ = create_key(tenant=tenant, name="gone", actor="test", tokens_per_day=100)
    revoke_key(key=gone, actor="test")
    create_key(tenant=tenant, name="free", actor="test", requests_per_minute=3)
    for days, tokens, values in (
        (0.1, 30, {"key_id": key.id}),
        (0.2, 50, {"key_id": gone.id, "deployment_id": deployment.id}),
        (3, 200, {"key_id": key.id, "deployment_id": deployment.id}),
        (16, 4000, {"key_id": key.id}),  # last month
    ):
        use(tenant, days, tokens, "0", **values)
    use(other, 0.1, 5000, "0")

    assert told(PLATFORM, "key") == {("ci", "day", "tokens"): ("100", "30"), ("ci", "month", "tokens"): ("900", "230")}
    assert told(Scope((tenant.id,)), "tenant") == {
        ("ours", "day", "tokens"): ("1000", "80"),
        ("ours", "month", "cost"): ("5.5", "0"),
    }
    assert told(PLATFORM, "tenant").keys() == {*told(Scope((tenant.id,)), "tenant"), ("theirs", "month", "tokens")}
    assert told(Scope((other.id,)), "key") == {}


def test_a_contracts_is_what_the_tenant_used_of_the_deployment() -> None:
    tenant, owner = make_tenant(), make_tenant()
    deployment = make_deployment(tenant=owner, name="lent")
    level = ServiceClass.objects.get(name="chat")
    ServiceClass.objects.filter(id=level.id).update(price_input=Decimal(10), price_output=Decimal("40.5"))
    level.refresh_from_db()
    contract = grant_contract(
        tenant=tenant, deployment=deployment, service_class=level, actor="test", cost_per_day=Decimal("0.5"),
        tokens_per_day=10**6,
    )  # fmt: skip
    values = {"deployment_id": deployment.id, "contract_id": contract.id, "class_name": "chat", "outcome": "completed"}
    use(tenant, 0.1, 1001, "0", **values)
    use(owner, 0.1, 999, "0", **values)
    assert told(PLATFORM, "contract") == {
        ("lent", "day", "tokens"): ("1000000", "1001"),
        ("lent", "day", "cost"): ("0.5", "0.0100405"),  # 1000 at 10 and 1 at 40.5 a million
    }


def test_over_the_api() -> None:
    world = World()
    change_tenant(tenant=world.tenant, actor="test", cost_per_day=Decimal("12.5"))
    path = f"{url('budgets')}?tenant={world.tenant.id}&kind=tenant"
    body = world.client(Role.VIEWER).get(path).json()
    (one,) = body["budgets"]
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    assert {name: one[name] for name in ("kind", "id", "unit", "period", "amount", "used")} == {
        "kind": "tenant", "id": world.tenant.id, "unit": "cost", "period": "day", "amount": "12.5", "used": "0",
    }  # fmt: skip
    assert datetime.fromisoformat(one["ends_at"]) - datetime.fromisoformat(one["begins_at"]) == timedelta(days=1)
    assert abs(datetime.fromisoformat(one["begins_at"]) - today) <= timedelta(days=1)
    assert (body["currency"], body["truncated"]) == ("USD", False)
    problem(world.client(Role.VIEWER).get(url("budgets")), 400)


def test_budgets_are_written_within_bounds_and_audited() -> None:
    world = World()
    operator, owner = world.client("operator"), world.client(Role.OWNER)
    budgets = {"tokens_per_day": 5000, "cost_per_month": "0.5000"}
    none = {"tokens_per_month": None, "cost_per_day": None}
    made = owner.post(url("keys"), {"tenant": world.tenant.id, "name": "ci", **budgets}, format="json").json()["key"]
    assert {name: made[name] for name in (*budgets, *none)} == budgets | none
    [event] = AuditEvent.objects.for_tenant(world.tenant.id).filter(action="key.create")
    assert (event.after["tokens_per_day"], event.after["cost_per_month"]) == (5000, "0.5000")
    changed = owner.patch(url("keys", made["id"]), {"tokens_per_day": None, "cost_per_day": "12"}, format="json").json()
    assert {name: changed[name] for name in budgets | none} == {
        "tokens_per_day": None, "cost_per_month": "0.5000", "tokens_per_month": None, "cost_per_day": "12.0000",
    }  # fmt: skip

    problem(owner.patch(url("tenants", world.tenant.id), budgets, format="json"), 403)
    assert operator.patch(url("tenants", world.tenant.id), budgets, format="json").json()["tokens_per_day"] == 5000
    for field, wrong in (("tokens_per_day", 0), ("tokens_per_month", 2**53), ("cost_per_day", "0"),
                         ("cost_per_day", "0.00001"), ("cost_per_month", "400000000.0001")):  # fmt: skip
        problem(operator.patch(url("tenants", world.tenant.id), {field: wrong}, format="json"), 400, field)
        problem(owner.patch(url("keys", made["id"]), {field: wrong}, format="json"), 400, field)


def test_a_contracts_versions_keep_their_budgets() -> None:
    deployment = make_deployment()
    first = grant_contract(
        tenant=make_tenant(),
        deployment=deployment,
        service_class=deployment.service_class,
        actor="test",
        tokens_per_month=10**9,
    )
    second = change_contract(contract=first, actor="test", cost_per_day=Decimal("2.5"))
    first.refresh_from_db()
    assert (first.tokens_per_month, first.cost_per_day) == (10**9, None)
    assert (second.tokens_per_month, second.cost_per_day, second.version) == (10**9, Decimal("2.5"), 2)
    with pytest.raises(Invalid, match="expected more than 0"):
        change_contract(contract=second, actor="test", tokens_per_day=0)
