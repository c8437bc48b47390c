"""Token and money budgets on a real Redis: what fits is admitted and nothing else, in each period, by each holder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from redis import asyncio as aioredis

from berth.core.periods import day_of, month_of
from berth.embedded.redis import EmbeddedRedis
from berth.gateway.accounts import Accounts
from berth.gateway.admission import Admission, Grant
from berth.gateway.errors import ApiError
from berth.gateway.line import Line
from berth.gateway.seeding import Seeding
from berth.gateway.snapshot import Budgets, Limits
from berth.live import names
from berth.metering.owners import Owner, Spent
from berth.metering.records import UsageEvent
from berth.slas.costs import Prices
from helpers.gateway import (
    DEPLOYMENT,
    TENANT,
    NoUsage,
    chat,
    make_key,
    make_route,
    make_snapshot,
    opened,
    running_gateway,
)
from helpers.patience import PATIENCE_S
from helpers.stub_door import StubDoor

OWNERS = (Owner(TENANT, key_id="k"), Owner(TENANT), Owner(TENANT, DEPLOYMENT))
PRICES = Prices(input=30_000, cached=3_000, output=150_000, currency="EUR")
WIDE = Budgets(10**15, 4 * 10**18, 10**15, 4 * 10**18)


@pytest.fixture
async def other(redis_url: str) -> AsyncIterator[Admission]:
    """A second gateway's admission, with a connection of its own."""
    line, seeding = Line(redis_url), Seeding(redis_url, NoUsage())
    yield Admission(line, "gw_other", seeding)
    await line.close()
    seeding.close()


@pytest.fixture
async def accounts(redis_url: str) -> AsyncIterator[Accounts]:
    line = Line(redis_url)
    yield Accounts(line, "gw_test")
    await line.close()


async def used(store: Any, owner: Owner) -> dict[str, int]:
    """What the hash holds for the present day and month."""
    second = (await store.time())[0]
    fields = await store.hgetall(names.budget(owner.scope))
    periods = (("day", day_of(second)), ("month", month_of(second)))
    found = {f"{unit}_{name}": f"{unit}:{name}:{start}" for name, start in periods for unit in ("tokens", "cost")}
    return {name: int(fields.get(field, 0)) for name, field in found.items()}


def ended(number: int = 1, **values: Any) -> UsageEvent:
    opening = opened(number)
    given = {name: getattr(opening, name) for name in opening.__struct_fields__}
    return UsageEvent(**(given | {"outcome": "completed"} | values))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("what", range(4))
async def test_two_gateways_admit_exactly_what_fits(
    admission: Admission, other: Admission, store: Any, place: int, what: int
) -> None:
    """200 at once against a budget for 10 and nearly another, of each period, in tokens and in money."""
    tokens, cost = 7, 9_000_000_000_000_011  # more than a double tells from its neighbours
    tight = (tokens if what % 2 == 0 else cost) * 11 - 1
    budgets = [WIDE._replace(**{Budgets._fields[what]: tight}) if place == at else WIDE for at in range(3)]
    key, tenant, contract = (Limits(budgets=one) for one in budgets)
    route = make_route(limits=contract, tenant_limits=tenant, prices=PRICES)
    gates = (admission, other)
    asked = [gates[n % 2].ask(route, opened(n), tokens, "rep_1", cost=cost, key_limits=key) for n in range(200)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(answer, Grant) for answer in answers) == 10
    assert {answer.code for answer in answers if isinstance(answer, ApiError)} == {"insufficient_quota"}
    spent = {"tokens_day": 70, "cost_day": 10 * cost, "tokens_month": 70, "cost_month": 10 * cost}
    for owner in OWNERS:
        assert await used(store, owner) == spent


async def test_a_refused_request_consumes_nothing(admission: Admission, store: Any) -> None:
    route = make_route(limits=Limits(100, 1000, 5, budgets=Budgets(tokens_per_day=50)), tenant_limits=Limits(9, 900, 5))
    await admission.ask(route, opened(1), 40, "rep_1")
    before = {key: await store.dump(key) for key in sorted(await store.keys("*"))}
    with pytest.raises(ApiError, match="has 10 tokens left, and the request may need 11 tokens"):
        await admission.ask(route, opened(2), 11, "rep_1")
    assert {key: await store.dump(key) for key in sorted(await store.keys("*"))} == before


@pytest.mark.parametrize(
    ("budgets", "says"),
    [
        (Budgets(tokens_per_day=100), "The budget of 100 tokens a day on 'small' is used up."),
        (Budgets(tokens_per_month=100), "The budget of 100 tokens a month on 'small' is used up."),
        (Budgets(cost_per_day=10**8), "The budget of EUR 0.01 a day on 'small' is used up."),
        (Budgets(cost_per_month=10**8), "The budget of EUR 0.01 a month on 'small' is used up."),
        (Budgets(tokens_per_day=101), "has 1 tokens left, and the request may need 100 tokens (its prompt and max_"),
        (
            Budgets(tokens_per_day=99),
            "need 100 tokens (its prompt and max_tokens), more than the budget of 99 tokens a day on 'small'.",
        ),
        (Budgets(cost_per_day=10**8 + 5), "EUR 0.0100000005 a day on 'small' has EUR 0.0000000005 left, and"),
    ],
)
async def test_the_refusal_names_the_budget_and_when_it_begins_again(
    admission: Admission, store: Any, budgets: Budgets, says: str
) -> None:
    route = make_route(limits=Limits(budgets=budgets), prices=PRICES)
    if "more than" not in says:
        await admission.ask(route, opened(1), 100, "rep_1", cost=10**8)
    with pytest.raises(ApiError) as over:
        await admission.ask(route, opened(2), 100, "rep_1", cost=10**8)
    error, second = over.value, (await store.time())[0]
    ends = day_of(second) + 86400 if "day" in says or budgets.tokens_per_day else month_of(second, 1)
    assert says in error.message
    if "more than" not in says:
        assert error.message.endswith(f"begins again at 00:00 UTC on {datetime.fromtimestamp(ends, UTC):%Y-%m-%d}.")
    assert (error.status, error.code, error.type) == (429, "insufficient_quota", "insufficient_quota")
    assert dict(error.headers) == {b"x-should-retry": b"false"}


async def test_what_was_reserved_becomes_what_it_cost_once(
    admission: Admission, accounts: Accounts, store: Any
) -> None:
    route = make_route(limits=Limits(budgets=WIDE), prices=PRICES)
    await admission.ask(route, opened(1), 5000, "rep_1", cost=PRICES.most(1000, 4000))
    event = ended(prompt_tokens=900, cached_tokens=500, completion_tokens=20)
    for _ in range(2):  # the answer of the first was lost
        accounts.settle(event, PRICES)
        await accounts.drain(PATIENCE_S)
    cost = 400 * 30_000 + 500 * 3_000 + 20 * 150_000
    spent = {"tokens_day": 920, "cost_day": cost, "tokens_month": 920, "cost_month": cost}
    assert await used(store, OWNERS[2]) == spent


async def test_a_failed_request_costs_nothing(admission: Admission, accounts: Accounts, store: Any) -> None:
    route = make_route(limits=Limits(budgets=WIDE), prices=PRICES)
    await admission.ask(route, opened(1), 5000, "rep_1", cost=10**9)
    accounts.settle(ended(outcome="failed", prompt_tokens=9, completion_tokens=1), PRICES)
    await accounts.drain(PATIENCE_S)
    assert await used(store, OWNERS[2]) == {"tokens_day": 10, "cost_day": 0, "tokens_month": 10, "cost_month": 0}


async def test_a_request_over_midnight_is_settled_in_its_own_day(
    admission: Admission, accounts: Accounts, store: Any
) -> None:
    """The day before is made of the present one: what Redis holds grows a day older."""
    route = make_route(limits=Limits(budgets=Budgets(tokens_per_day=100)))
    await admission.ask(route, opened(1), 80, "rep_1")
    second = (await store.time())[0]
    today, yesterday, budget = day_of(second), day_of(second) - 86400, names.budget(OWNERS[2].scope)
    for unit in ("tokens", "cost"):
        value = await store.hget(budget, f"{unit}:day:{today}")
        await store.hdel(budget, f"{unit}:day:{today}")
        await store.hset(budget, f"{unit}:day:{yesterday}", value)
    await store.hset(names.open_request("req_1"), "day", yesterday)
    await store.hset(budget, f"tokens:day:{today - 3 * 86400}", 7)

    await admission.ask(route, opened(2), 90, "rep_1")  # a new day has all of its budget
    accounts.settle(ended(prompt_tokens=30, completion_tokens=3), PRICES)
    await accounts.drain(PATIENCE_S)
    fields = await store.hgetall(budget)
    assert (fields[f"tokens:day:{yesterday}"], fields[f"tokens:day:{today}"]) == ("33", "90")
    assert f"tokens:day:{today - 3 * 86400}" not in fields  # long past


async def test_a_new_month_begins_with_all_of_its_budget(
    admission: Admission, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The month of Redis' clock is the last of those named that has begun."""
    route = make_route(limits=Limits(budgets=Budgets(tokens_per_month=100)))
    second = (await store.time())[0]

    def months(turn: int) -> Callable[[float], list[int]]:
        return lambda _: [turn - 60 * 86400, turn - 30 * 86400, turn, turn + 31 * 86400]

    monkeypatch.setattr("berth.gateway.admission.months_around", months(second + 3600))
    await admission.ask(route, opened(1), 80, "rep_1")
    with pytest.raises(ApiError, match="has 20 tokens left"):
        await admission.ask(route, opened(2), 80, "rep_1")
    monkeypatch.setattr("berth.gateway.admission.months_around", months(second - 1))
    await admission.ask(route, opened(2), 80, "rep_1")
    fields = await store.hgetall(names.budget(OWNERS[2].scope))
    assert fields[f"tokens:month:{second + 3600 - 30 * 86400}"] == fields[f"tokens:month:{second - 1}"] == "80"


class Given(NoUsage):
    """A database that says what the test says, or is away."""

    def __init__(self) -> None:
        self.spending = Spent(0, Decimal(0))
        self.away = False
        self.asked: list[Owner] = []

    def spent(self, owner: Owner, since: datetime, leaving_out: Sequence[str]) -> Spent:
        if self.away:
            raise OperationalError("the database is away")
        self.asked.append(owner)
        return self.spending


async def test_a_holder_is_counted_once_however_many_ask(store: Any, redis_url: str) -> None:
    usage = Given()
    usage.spending = Spent(60, Decimal("0.5"))
    line, seeding = Line(redis_url), Seeding(redis_url, usage)
    gate = Admission(line, "gw_test", seeding)
    route = make_route(limits=Limits(budgets=Budgets(tokens_per_day=100)))
    answers = await asyncio.gather(
        *(gate.ask(route, opened(n), 10, "rep_1") for n in range(50)), return_exceptions=True
    )
    assert sum(isinstance(answer, Grant) for answer in answers) == 4
    assert usage.asked == [OWNERS[2]] * 2  # its day and its month
    assert (await used(store, OWNERS[2]))["cost_month"] == 5 * 10**9
    await line.close()
    seeding.close()


@pytest.mark.parametrize("admits", [True, False])
async def test_without_the_database_nothing_is_counted_silently(
    store: Any, redis_url: str, caplog: pytest.LogCaptureFixture, admits: bool
) -> None:
    """A budget that Redis does not know and the database cannot tell: the tenant's choice. Its rates hold."""
    usage = Given()
    usage.away = True
    line, seeding = Line(redis_url), Seeding(redis_url, usage)
    gate = Admission(line, "gw_test", seeding)
    limits = Limits(requests_per_min=2, budgets=Budgets(tokens_per_day=100))
    route = make_route(limits=limits, admits_uncounted=admits)
    try:
        if admits:
            for number in range(2):
                await gate.ask(route, opened(number), 500, "rep_1")
            with pytest.raises(ApiError, match="limit of 2 requests a minute"):
                await gate.ask(route, opened(2), 500, "rep_1")
            assert await store.smembers(names.OPEN_REQUESTS) == {"req_0", "req_1"}
            assert gate.uncounted == {"admitted": 3}
        else:
            with pytest.raises(ApiError) as away:
                await gate.ask(route, opened(1), 10, "rep_1")
            assert (away.value.status, away.value.code) == (503, "limits_unavailable")
            assert gate.uncounted == {"refused": 1}
        assert "budgets_away" in caplog.messages
    finally:
        await line.close()
        seeding.close()


async def test_counters_of_a_server_before_are_not_trusted(tmp_path: Path) -> None:
    """Redis comes back with what it had saved, which may be less than was used."""
    usage = Given()
    server = EmbeddedRedis(tmp_path / "redis")
    line, seeding = Line(server.url), Seeding(server.url, usage)
    gate = Admission(line, "gw_test", seeding)
    route = make_route(limits=Limits(budgets=Budgets(tokens_per_day=100)))
    try:
        await gate.ask(route, opened(1), 30, "rep_1")
        client = aioredis.Redis.from_url(server.url, decode_responses=True)
        await client.hset(names.budget(OWNERS[2].scope), "server", "another")
        usage.spending = Spent(65, Decimal(0))
        with pytest.raises(ApiError, match="has 5 tokens left"):
            await gate.ask(route, opened(2), 10, "rep_1")
        assert (await used(client, OWNERS[2]))["tokens_day"] == 95
        await client.aclose()
    finally:
        await line.close()
        seeding.close()
        server.stop()


async def test_the_whole_way_of_a_request_under_budgets(door: StubDoor, store: Any, redis_url: str) -> None:
    key, token = make_key()
    body = json.dumps(chat(stream=False, max_tokens=500)).encode()
    reserved = -(-len(body) // 3) + 64 + 500
    key = replace(key, limits=Limits(budgets=Budgets(tokens_per_day=reserved + 20)))
    owner = Owner(TENANT, key_id=key.id)
    cost = 12 * 30_000 + 3 * 150_000  # 12 of the prompt and 3 of the answer, as the door counted
    snapshot = make_snapshot([door.url], key, prices=PRICES)
    async with running_gateway(snapshot, token, redis_url) as running:
        async with running.post(body) as answer:
            assert answer.status == 200, await answer.text()

        async def settled() -> bool:
            return (await used(store, owner))["cost_day"] == cost

        await _until(settled)
        assert (await used(store, owner))["tokens_month"] == 15
        await store.hincrby(names.budget(owner.scope), f"tokens:day:{day_of((await store.time())[0])}", 6)
        async with running.post(body) as answer:
            error = (await answer.json())["error"]
    assert (answer.status, error["type"], error["code"]) == (429, "insufficient_quota", "insufficient_quota")
    assert "of this API key has" in error["message"]
    assert (answer.headers["x-should-retry"], "retry-after" in answer.headers) == ("false", False)
    assert len(door.calls) == 1


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await check():  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)
