"""The snapshot of real rows, and how soon a change is in it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from berth.core.errors import Invalid
from berth.core.ids import new_id
from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.fleet.seats import reserve_seat
from berth.gateway.auth import authenticate, authenticate_soon
from berth.gateway.errors import ApiError
from berth.gateway.keeper import Keeper, build
from berth.gateway.snapshot import Budgets, Limits
from berth.slas.costs import Prices
from berth.slas.services import create_class, ensure_default_classes, grant_contract
from berth.tenants.models import ApiKey
from berth.tenants.services import change_key, change_tenant, create_key, revoke_key
from helpers.factories import make_deployment, make_gpu, make_tenant
from helpers.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def keeper(redis_url: str) -> Iterator[Keeper]:
    started = Keeper(redis_url, lambda _: None)
    started.start()
    yield started
    started.stop()
    started.join()


def test_budgets_and_prices_are_in_the_snapshot_in_whole_numbers() -> None:
    deployment = make_deployment(name="priced")
    level = create_class(
        name="dear", actor="test", price_input="3.0001", price_cached="0.0003", price_output="99999999.9999"
    )
    tenant = make_tenant()
    grant_contract(
        tenant=tenant, deployment=deployment, service_class=level, actor="test", cost_per_month=Decimal("0.0001")
    )
    change_tenant(tenant=tenant, actor="test", tokens_per_day=2**53 - 1, cost_per_day=Decimal(400_000_000))
    key, _ = create_key(tenant=tenant, name="k", actor="test", tokens_per_month=7, cost_per_day=Decimal("1.5"))
    snapshot = build()
    route = snapshot.routes[tenant.id, "priced"]
    assert route.prices == Prices(30_001, 3, 999_999_999_999, "USD")  # of a token, in 1e-10
    assert route.limits.budgets == Budgets(cost_per_month=10**6)
    assert route.tenant_limits.budgets == Budgets(tokens_per_day=2**53 - 1, cost_per_day=4 * 10**18)
    assert snapshot.keys[key.id].limits.budgets == Budgets(cost_per_day=15 * 10**9, tokens_per_month=7)


def test_a_tenant_sees_its_own_deployments_and_those_it_has_a_contract_on() -> None:
    owner, guest, stranger = make_tenant(), make_tenant(), make_tenant()
    deployment = make_deployment(tenant=owner, name="shared", default_max_tokens=77)
    chat = ensure_default_classes()["rag"]
    grant_contract(
        tenant=guest,
        deployment=deployment,
        service_class=chat,
        actor="test",
        guaranteed_requests_per_min=5,
        max_concurrency=2,
    )
    snapshot = build()
    assert [route.model for route in snapshot.models_of(owner.id)] == ["shared"]
    mine, theirs = snapshot.routes[owner.id, "shared"], snapshot.routes[guest.id, "shared"]
    assert mine.deployment_id == theirs.deployment_id == deployment.id
    assert (mine.owned, mine.class_name, mine.limits, mine.default_max_tokens) == (True, "chat", Limits(), 77)
    assert (theirs.owned, theirs.class_name, theirs.limits) == (False, "rag", Limits(5, None, 2))
    assert theirs.level.prefill_tokens_per_s == 10_000
    assert mine.salt != theirs.salt
    assert snapshot.models_of(stranger.id) == []


def test_replicas_with_a_port_are_routed_to_in_the_states_that_take_requests() -> None:
    deployment = make_deployment()
    replica = create_replica(deployment=deployment, reason="test")
    reserve_seat(replica=replica, gpu=make_gpu(), memory_bytes=1 << 30)

    def routed(**values: object) -> list[tuple[str, bool]]:
        given = {"port": 4001, "state": "ready", "run": True, "ended_at": None} | values
        Replica.objects.for_platform().filter(id=replica.id).update(**given)
        return [(found.url, found.ready) for found in build().replicas.get(deployment.id, ())]

    assert routed() == [("http://127.0.0.1:4001", True)]
    assert routed(state="loading") == [("http://127.0.0.1:4001", False)]
    for gone in ({"port": 0}, {"state": "draining"}, {"state": "lost"}, {"run": False}, {"ended_at": timezone.now()}):
        assert routed(**gone) == []


def test_keys_that_open_nothing_are_not_in_it() -> None:
    tenant = make_tenant()
    good, token = create_key(tenant=tenant, name="k", actor="test")
    old, _ = create_key(tenant=tenant, name="old", actor="test")
    old.expires_at = timezone.now() - timedelta(seconds=1)
    old.save()
    assert set(build().keys) == {good.id}
    assert authenticate(f"Bearer {token}", build()).tenant_id == tenant.id
    tenant.suspended_at = timezone.now()
    tenant.save()
    assert build().keys == {}


def test_limits_of_a_key_and_a_tenant_come_with_the_next_push(keeper: Keeper) -> None:
    """A key may be above its tenant: both limits are carried, and the smaller will hold."""
    owner, guest = make_tenant(), make_tenant()
    deployment = make_deployment(tenant=owner, name="shared")
    grant_contract(
        tenant=guest, deployment=deployment, service_class=ensure_default_classes()["chat"], actor="test"
    )  # fmt: skip
    key, _ = create_key(tenant=guest, name="k", actor="test", requests_per_minute=90)
    eventually(lambda: keeper.current.keys[key.id].limits == Limits(90))
    change_key(key=key, actor="test", requests_per_minute=None, tokens_per_minute=700, max_concurrency=3)
    change_tenant(tenant=guest, actor="test", tokens_per_minute=600)
    change_tenant(tenant=owner, actor="test", max_concurrency=8, admits_uncounted=False)
    eventually(lambda: keeper.current.keys[key.id].limits == Limits(None, 700, 3))
    eventually(lambda: keeper.current.routes[guest.id, "shared"].tenant_limits == Limits(None, 600))
    eventually(lambda: keeper.current.routes[owner.id, "shared"].tenant_limits == Limits(None, None, 8))
    routes = keeper.current.routes
    assert [routes[tenant.id, "shared"].admits_uncounted for tenant in (guest, owner)] == [True, False]


@pytest.mark.parametrize("wrong", [{"requests_per_minute": 0}, {"max_concurrency": 2**31}, {"requests": 1}])
def test_what_is_no_limit_is_refused_by_name(wrong: dict[str, int]) -> None:
    tenant = make_tenant()
    with pytest.raises(Invalid) as refused:
        create_key(tenant=tenant, name="k", actor="test", **wrong)
    assert refused.value.field in wrong
    assert not ApiKey.objects.for_tenant(tenant.id).exists()


def test_a_revoked_key_stops_within_a_second(keeper: Keeper) -> None:
    key, token = create_key(tenant=make_tenant(), name="k", actor="test")
    eventually(lambda: key.id in keeper.current.keys)
    revoke_key(key=key, actor="test")
    eventually(lambda: key.id not in keeper.current.keys)
    with pytest.raises(ApiError):
        authenticate(f"Bearer {token}", keeper.current)


def test_a_key_works_the_moment_it_was_made(keeper: Keeper) -> None:
    tenant = make_tenant()
    for _ in range(5):
        key, token = create_key(tenant=tenant, name="k", actor="test")
        assert asyncio.run(authenticate_soon(f"Bearer {token}", keeper)).id == key.id


def test_a_key_revoked_the_moment_it_was_made_is_refused_without_a_wait(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.gateway.auth.PATIENCE_S", 10 * PATIENCE_S)
    key, token = create_key(tenant=make_tenant(), name="k", actor="test")
    eventually(lambda: key.id in keeper.current.keys)
    revoke_key(key=key, actor="test")
    eventually(lambda: key.id not in keeper.current.keys)
    with pytest.raises(ApiError):
        asyncio.run(asyncio.wait_for(authenticate_soon(f"Bearer {token}", keeper), PATIENCE_S))


def test_an_unknown_key_is_waited_for_only_while_it_may_be_new(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.gateway.auth.PATIENCE_S", 0.2)
    secret = "a" * 43
    old = "key_00m8mwgr91aq009wn23c3z4wd1"
    for key_id, least_s in ((new_id("key"), 0.2), (old, 0.0)):
        begun = time.monotonic()
        with pytest.raises(ApiError):
            asyncio.run(authenticate_soon(f"Bearer {key_id}.{secret}", keeper))
        assert time.monotonic() - begun >= least_s


def test_a_revoked_key_stops_within_a_second_when_the_push_is_lost(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis.Redis.publish", lambda *args: 0)
    key, _ = create_key(tenant=make_tenant(), name="k", actor="test")
    eventually(lambda: key.id in keeper.current.keys)
    revoke_key(key=key, actor="test")
    eventually(lambda: key.id not in keeper.current.keys)


def test_serving_needs_no_torch() -> None:
    code = "import sys, berth.asgi; print([m for m in ('torch', 'transformers', 'gguf') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
