"""Counters that are made anew, from open requests, records not booked and the database, equal those that were lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from berth.core.periods import day_of, month_of
from berth.gateway.accounts import Accounts
from berth.gateway.admission import Admission
from berth.gateway.keeper import Keeper
from berth.gateway.line import Line
from berth.gateway.seeding import Seeding
from berth.gateway.snapshot import Budgets, Limits, Route
from berth.live import names
from berth.live.threads import in_thread
from berth.metering.ledger import post
from berth.metering.models import UsageRecord
from berth.metering.owners import Owner, owners_of
from berth.metering.records import OpenRecord, UsageEvent
from berth.slas.costs import Prices, to_parts
from berth.slas.services import create_class
from helpers.gateway import make_route
from helpers.patience import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
BUDGETS = Limits(budgets=Budgets(10**12, 4 * 10**18, 10**12, 4 * 10**18))
TENANTS, DEPLOYMENTS = ("ten_a", "ten_b"), ("dep_a", "dep_b")


@dataclass
class House:
    """Two tenants' requests, each as far as it has come: open, closed, booked."""

    redis_url: str
    prices: Prices
    open: list[OpenRecord] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        keeper = Keeper(self.redis_url, lambda _: None)
        self.line, self.seeding = Line(self.redis_url), Seeding(self.redis_url, keeper)
        self.gate, self.accounts = Admission(self.line, "gw_1", self.seeding), Accounts(self.line, "gw_1")
        self.client: Any = redis.Redis.from_url(self.redis_url, decode_responses=True)

    async def close(self) -> None:
        await self.line.close()
        self.seeding.close()
        self.client.close()

    def route(self, tenant: str, deployment: str, limits: Limits) -> Route:
        return make_route(
            tenant=tenant, deployment=deployment, limits=limits, tenant_limits=limits, prices=self.prices,
            class_name="priced", contract_id="",
        )  # fmt: skip

    async def ask(self, rng: random.Random, limits: Limits) -> None:
        self.made += 1
        tenant, deployment = rng.choice(TENANTS), rng.choice(DEPLOYMENTS)
        opened = OpenRecord(
            request_id=f"req_{self.made}",
            tenant_id=tenant,
            deployment_id=deployment,
            deployment_name="small",
            key_id=rng.choice(_keys(tenant)),
            class_name="priced",
            at=(await asyncio.to_thread(self.client.time))[0],
        )
        route = self.route(tenant, deployment, limits)
        prompt, output = rng.randrange(1000), rng.randrange(1000)
        cost = self.prices.most(prompt, output)
        await self.gate.ask(route, opened, prompt + output, "", cost=cost, key_limits=limits)
        self.open.append(opened)

    def settle(self, rng: random.Random) -> None:
        opened = self.open.pop(rng.randrange(len(self.open)))
        given = {name: getattr(opened, name) for name in opened.__struct_fields__}
        prompt = rng.randrange(1, 900)
        event = UsageEvent(
            **given,
            outcome=rng.choice(["completed", "completed", "client_left", "failed"]),
            prompt_tokens=prompt,
            cached_tokens=rng.randrange(prompt),
            completion_tokens=rng.randrange(900),
        )
        self.accounts.settle(event, self.prices)

    async def counters(self) -> dict[Owner, dict[str, int]]:
        found = {}
        for owner in {owner for t in TENANTS for d in DEPLOYMENTS for k in _keys(t) for owner in owners_of(t, d, k)}:
            fields = await asyncio.to_thread(self.client.hgetall, names.budget(owner.scope))
            found[owner] = {name: int(value) for name, value in fields.items() if name.count(":") == 2}
        return found


@pytest.fixture
async def house(redis_url: str) -> AsyncIterator[House]:
    prices = {"price_input": "3.0000", "price_cached": "0.3001", "price_output": "15.1234"}
    made = await in_thread(create_class, name="priced", actor="test", **prices)
    started = House(redis_url, Prices.of(made.terms()))
    await asyncio.to_thread(started.client.flushdb)
    yield started
    await started.close()


def _keys(tenant: str) -> list[str]:
    return [f"key_{tenant}_{number}" for number in range(2)]


async def _live(house: House, rng: random.Random, steps: int, limits: Limits = BUDGETS) -> None:
    for _ in range(steps):
        if house.open and rng.random() < 0.45:
            house.settle(rng)
            await house.accounts.drain(PATIENCE_S)
        elif rng.random() < 0.1:
            await in_thread(post, house.client)
        else:
            await house.ask(rng, limits)


@pytest.mark.parametrize("seed", range(3))
async def test_what_was_lost_is_found_again(house: House, seed: int) -> None:
    """Any mix of open, closed and booked requests; the same request asks twice, so that nothing else is counted."""
    rng = random.Random(seed)
    await _live(house, rng, 60)
    before = await house.counters()
    keys = await asyncio.to_thread(house.client.keys, names.budget("*"))
    assert await asyncio.to_thread(house.client.delete, *keys) == len(keys) > 0
    assert await _rebuilt(house) == before


async def test_a_first_budget_knows_what_was_used_before_it(house: House) -> None:
    """Without a budget there are no counters; the one that is set then begins with everything."""
    rng = random.Random(7)
    await _live(house, rng, 40, Limits())
    assert set(map(len, (await house.counters()).values())) == {0}
    rebuilt = await _rebuilt(house)
    await asyncio.to_thread(house.client.delete, *await asyncio.to_thread(house.client.keys, names.budget("*")))
    assert await _rebuilt(house) == rebuilt
    while house.open:
        house.settle(rng)
    await house.accounts.drain(PATIENCE_S)
    assert await house.counters() == await _booked(house)


async def test_counting_anew_beside_traffic_loses_nothing(house: House) -> None:
    """Requests open and close while the sums are made, by gateways that know of the budget and of none."""
    rng = random.Random(3)
    await _live(house, rng, 30, Limits())

    async def traffic() -> None:
        for _ in range(60):
            await house.ask(rng, rng.choice([Limits(), BUDGETS]))
            if len(house.open) > 5:
                house.settle(rng)
                await house.accounts.drain(PATIENCE_S)

    await asyncio.gather(traffic(), *(house.seeding.seed(Owner(tenant)) for tenant in TENANTS))
    await _rebuilt(house)
    while house.open:
        house.settle(rng)
    await house.accounts.drain(PATIENCE_S)
    assert await house.counters() == await _booked(house)


async def test_after_everything_is_lost_the_database_is_what_is_known(house: House) -> None:
    """Redis is emptied under open requests: what they use is added when they end, though nobody knows them."""
    rng = random.Random(5)
    await _live(house, rng, 60)
    await in_thread(post, house.client)
    await asyncio.to_thread(house.client.flushdb)
    assert await _rebuilt(house) == await _booked(house, post_first=False)
    still = len(house.open)
    assert still > 0
    while house.open:
        house.settle(rng)
    await house.accounts.drain(PATIENCE_S)
    assert await house.counters() == await _booked(house)


async def _rebuilt(house: House) -> dict[Owner, dict[str, int]]:
    for owner in await house.counters():
        await house.seeding.seed(owner)
    return await house.counters()


async def _booked(house: House, *, post_first: bool = True) -> dict[Owner, dict[str, int]]:
    """The sums of the records, one by one."""
    if post_first:
        await in_thread(post, house.client)
    second = (await asyncio.to_thread(house.client.time))[0]
    found: dict[Owner, dict[str, int]] = {}
    for row in await in_thread(lambda: list(UsageRecord.objects.for_platform())):
        for owner in owners_of(row.tenant_id, row.deployment_id, row.key_id):
            sums = found.setdefault(owner, {})
            for period in (f"day:{day_of(second)}", f"month:{month_of(second)}"):
                used = row.prompt_tokens + row.completion_tokens
                sums[f"tokens:{period}"] = sums.get(f"tokens:{period}", 0) + used
                sums[f"cost:{period}"] = sums.get(f"cost:{period}", 0) + to_parts(row.cost)
    return found
