"""``service_tier``: a class that the contract allows, from its limits at the door to its verdict, price and echo."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from berth.core.errors import Invalid
from berth.gateway.asked import parse_chat, parse_completion
from berth.gateway.keeper import build
from berth.gateway.snapshot import Tier
from berth.live import names
from berth.metering.enrich import price
from berth.metering.models import UsageRecord
from berth.slas.models import Contract
from berth.slas.services import (
    change_class,
    change_contract,
    create_class,
    delete_class,
    ensure_default_classes,
    grant_contract,
)
from gpuruntime.goodput import ServiceLevel
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_tenant, unique
from helpers.gateway import MODEL, TENANT, Running, chat, events, make_route
from helpers.stub_door import StubDoor

FLEX = Tier("batch", ServiceLevel(base_ms=60_000, tpot_ms=500))
FAST = Tier("code", ServiceLevel(base_ms=200, tpot_ms=60))


@pytest.fixture
def tiered(running: Running) -> Running:
    running.keeper.change(routes={(TENANT, MODEL): make_route(tiers={"flex": FLEX, "priority": FAST})})
    return running


async def record_of(store: Any) -> dict[str, Any]:
    entries: list[Any] = []
    while not entries:
        entries = await store.xrange(names.USAGE_STREAM)
    return dict(json.loads(entries[-1][1]["record"]))


# (asked, echoed, class, limits in ms as the door is told them)
PICKS = [
    (None, None, "chat", 1000, "100"),
    ("auto", "default", "chat", 1000, "100"),
    ("default", "default", "chat", 1000, "100"),
    ("flex", "flex", "batch", 60_000, "500"),
    ("priority", "priority", "code", 200, "60"),
    ("fast", "priority", "code", 200, "60"),
]


@pytest.mark.parametrize(("asked", "echoed", "class_name", "ttft_ms", "tpot_ms"), PICKS)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_class_that_was_picked_is_the_one_that_serves(
    tiered: Running, door: StubDoor, store: Any, asked: str | None, echoed: str | None, class_name: str,
    ttft_ms: int, tpot_ms: str, stream: bool,
) -> None:  # fmt: skip
    body = chat(stream, **({"service_tier": asked} if asked else {}))
    async with tiered.post(body) as answer:
        assert answer.status == 200
        text = await answer.text()
    told = [json.loads(data) for _, data in events(text)[:-1]] if stream else [json.loads(text)]
    assert {one.get("service_tier") for one in told} == {echoed}
    sent = door.calls[0].headers
    assert 0 < float(sent["x-slo-ttft-ms"]) <= ttft_ms
    assert (float(sent["x-slo-ttft-ms"]) > ttft_ms - 150, sent["x-slo-tpot-ms"]) == (True, tpot_ms)
    record = await record_of(store)
    assert (record["class_name"], record["contract_id"]) == (class_name, "con_1")
    assert record["tpot_limit_us"] == int(tpot_ms) * 1000


@pytest.mark.parametrize("tier", ["scale", "gold"])
async def test_what_the_contract_does_not_allow_is_refused_by_name(tiered: Running, door: StubDoor, tier: str) -> None:
    async with tiered.post(chat(service_tier=tier)) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["param"]) == (400, "service_tier")
    if tier == "scale":
        assert error["message"].endswith("it allows auto, default, flex, priority.")
    assert door.calls == []


def test_a_text_completion_picks_its_class_too() -> None:
    assert parse_completion(b'{"model":"m","prompt":"x","service_tier":"flex"}').tier == "flex"
    assert parse_chat(json.dumps(chat()).encode()).tier is None


def granted(**tiers: str) -> Contract:
    every = ensure_default_classes()
    return grant_contract(
        tenant=make_tenant(), deployment=make_deployment(), service_class=every["chat"],
        tiers={tier: every[name] for tier, name in tiers.items()}, actor="t",
    )  # fmt: skip


@pytest.mark.django_db
def test_a_contracts_tiers_reach_the_gateway_as_they_were_promised() -> None:
    contract = granted(flex="batch", priority="code")
    route = build().routes[contract.tenant_id, contract.deployment.name]
    every = ensure_default_classes()
    assert {name: (tier.class_name, tier.level) for name, tier in route.tiers.items()} == {
        "flex": ("batch", every["batch"].level()),
        "priority": ("code", every["code"].level()),
    }
    assert (route.at("flex").class_name, route.at("flex").contract_id) == ("batch", contract.id)
    assert (route.class_name, route.tier) == ("chat", "default")


@pytest.mark.django_db
def test_a_tiers_class_that_changes_renews_the_contract() -> None:
    own = create_class(name=unique("gold"), actor="t", base_ms=500)
    contract = grant_contract(
        tenant=make_tenant(), deployment=make_deployment(), service_class=ensure_default_classes()["chat"],
        tiers={"priority": own}, actor="t",
    )  # fmt: skip
    change_class(service_class=own, actor="t", base_ms=400)
    old, new = Contract.objects.for_tenant(contract.tenant_id).order_by("version")
    assert [row.tiers["priority"]["terms"]["base_ms"] for row in (old, new)] == [500, 400]
    assert (old.valid_until, new.terms) == (new.valid_from, old.terms)
    with pytest.raises(Exception, match="2 contract versions"):
        delete_class(service_class=own, actor="t")


@pytest.mark.django_db
def test_a_version_keeps_its_tiers_until_they_are_changed() -> None:
    contract = granted(flex="batch")
    heavier = change_contract(contract=contract, actor="t", weight=3)
    assert heavier.tiers == contract.tiers
    with pytest.raises(Invalid, match="'gold' is not a tier"):
        change_contract(contract=heavier, actor="t", tiers={"gold": ensure_default_classes()["code"]})
    assert change_contract(contract=heavier, actor="t", tiers={}).tiers == {}


@pytest.mark.django_db
def test_a_tiers_request_costs_what_its_class_does() -> None:
    """Prices by hand: 100 new prompt tokens and 10 of output, of a million each."""
    cheap = create_class(name=unique("cheap"), actor="t", price_input=1, price_output=2)
    dear = create_class(name=unique("dear"), actor="t", price_input=10, price_output=20)
    contract = grant_contract(
        tenant=make_tenant(), deployment=make_deployment(), service_class=dear, tiers={"flex": cheap}, actor="t"
    )
    rows = [
        UsageRecord(
            request_id=unique("req"), contract_id=contract.id, class_name=one.name, outcome="completed",
            prompt_tokens=100, completion_tokens=10, arrived_at=timezone.now(),
        )
        for one in (dear, cheap)
    ]  # fmt: skip
    price(rows)
    assert [float(row.cost) for row in rows] == [0.0012, 0.00012]


@pytest.mark.django_db
def test_the_operator_names_tiers_by_class() -> None:
    operator = World().client("operator")
    every = ensure_default_classes()
    body = {"tenant": make_tenant().id, "deployment": make_deployment().id, "service_class": "chat"}
    made = operator.post(
        url("contracts"), body | {"tiers": {"flex": "batch", "priority": every["code"].id}}, format="json"
    )
    assert made.status_code == 201, made.json()
    shown = [(tier["tier"], tier["class_name"], tier["terms"]["base_ms"]) for tier in made.json()["tiers"]]
    assert shown == [("flex", "batch", None), ("priority", "code", 200)]
    wrong = operator.patch(url("contracts", made.json()["id"]), {"tiers": {"gold": "code"}}, format="json")
    assert "tier" in str(problem(wrong, 400))
