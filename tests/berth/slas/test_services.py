from __future__ import annotations

import pytest

from berth.core.errors import Conflict, Invalid
from berth.slas.models import Contract, ServiceClass
from berth.slas.services import (
    change_class,
    change_contract,
    create_class,
    end_contract,
    ensure_default_classes,
    grant_contract,
)
from helpers.factories import make_deployment, make_tenant

pytestmark = pytest.mark.django_db


def test_the_default_classes_are_the_definitions() -> None:
    classes = ensure_default_classes()
    limits = {
        name: (c.base_ms, c.free_prompt_tokens, c.prefill_tokens_per_s, c.tpot_ms, c.stretch_tpot_ms, c.e2e_ms)
        for name, c in classes.items()
    }
    assert limits == {
        "chat": (1000, 0, None, 100, 50, None),
        "code": (200, 4000, 40000, 60, 30, None),
        "rag": (1000, 0, 10000, 100, None, None),
        "batch": (None, 0, None, None, None, 86_400_000),
    }
    # docs/goodput.md: code's 200 ms, and 25 us for each new token beyond 4,000.
    assert classes["code"].level().ttft_limit_us(5000) == 200_000 + 1000 * 25

    change_class(service_class=classes["chat"], actor="test", tpot_ms=80)
    assert ensure_default_classes()["chat"].tpot_ms == 80
    assert ServiceClass.objects.count() == 4


def test_a_change_of_contract_is_a_new_version_and_the_old_one_stays() -> None:
    deployment, tenant, classes = make_deployment(), make_tenant(), ensure_default_classes()
    old = grant_contract(
        tenant=tenant,
        deployment=deployment,
        service_class=classes["chat"],
        actor="t",
        weight=3,
        guaranteed_requests_per_min=60,
    )
    new = change_contract(contract=old, actor="t", service_class=classes["code"], guaranteed_requests_per_min=None)

    rows = Contract.objects.for_tenant(tenant.id).order_by("version")
    assert [(r.version, r.service_class.name, r.guaranteed_requests_per_min, r.weight) for r in rows] == [
        (1, "chat", 60, 3),
        (2, "code", None, 3),
    ]
    assert [r.valid_until is None for r in rows] == [False, True]
    assert new.id != old.id
    assert change_contract(contract=new, actor="t", weight=3).id == new.id
    with pytest.raises(Conflict, match="Version 1"):
        change_contract(contract=old, actor="t", weight=4)
    end_contract(contract=new, actor="t")
    with pytest.raises(Conflict):
        end_contract(contract=new, actor="t")
    grant_contract(tenant=tenant, deployment=deployment, service_class=classes["chat"], actor="t")


def test_one_open_contract_a_deployment_and_one_meaning_a_name() -> None:
    classes, tenant = ensure_default_classes(), make_tenant()
    mine = make_deployment(tenant=tenant, name="llama")
    theirs, third = make_deployment(name="llama"), make_deployment(name="other")
    chat = classes["chat"]
    with pytest.raises(Conflict, match="has a contract"):
        grant_contract(tenant=tenant, deployment=mine, service_class=chat, actor="t")
    with pytest.raises(Conflict, match="already has a model named 'llama'"):
        grant_contract(tenant=tenant, deployment=theirs, service_class=chat, actor="t")
    grant_contract(tenant=tenant, deployment=third, service_class=chat, actor="t")
    with pytest.raises(Conflict, match="already has a model named 'other'"):
        make_deployment(tenant=tenant, name="other")


def test_limits_that_make_no_sense_are_refused() -> None:
    values = {
        "tenant": make_tenant(),
        "deployment": make_deployment(),
        "service_class": create_class(name="x", actor="t"),
    }
    for limits, field in (
        ({"weight": 0}, "weight"),
        ({"guaranteed_tokens_per_min": -1}, "guaranteed_tokens_per_min"),
        ({"speed": 1}, "speed"),
    ):
        with pytest.raises(Invalid) as refused:
            grant_contract(**values, actor="t", **limits)
        assert refused.value.field == field
    with pytest.raises(Conflict, match="exists"):
        create_class(name="x", actor="t")
