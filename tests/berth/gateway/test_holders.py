"""Limits of a key, a tenant and a contract at once: who refuses, what it says, and that gateways share them all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from berth.embedded.redis import EmbeddedRedis
from berth.gateway.admission import Admission, Grant
from berth.gateway.app import Gateway
from berth.gateway.errors import ApiError
from berth.gateway.line import Line
from berth.gateway.seeding import Seeding
from berth.gateway.snapshot import Limits
from berth.live import names
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
from helpers.stub_door import StubDoor, tokens

SCOPES = (names.key_limits("k"), names.tenant_limits(TENANT), names.contract_limits(TENANT, DEPLOYMENT))


@pytest.fixture
async def other(redis_url: str) -> AsyncIterator[Admission]:
    """A second gateway's admission, with a connection of its own."""
    line, seeding = Line(redis_url), Seeding(redis_url, NoUsage())
    yield Admission(line, "gw_other", seeding)
    await line.close()
    seeding.close()


@pytest.mark.parametrize(
    ("key", "tenant", "contract", "says"),
    [
        (Limits(requests_per_min=1), Limits(requests_per_min=9), Limits(requests_per_min=9), "of this API key"),
        (Limits(tokens_per_min=90), Limits(tokens_per_min=19), Limits(), "19 tokens a minute of your tenant"),
        (Limits(), Limits(max_concurrency=1), Limits(max_concurrency=9), "1 requests at a time of your tenant"),
        (Limits(tokens_per_min=90), Limits(max_concurrency=9), Limits(requests_per_min=1), "on 'small'"),
    ],
)
async def test_the_refusal_says_which_limit_of_whom(
    admission: Admission, key: Limits, tenant: Limits, contract: Limits, says: str
) -> None:
    route = make_route(limits=contract, tenant_limits=tenant)
    await admission.ask(route, opened(1), 10, "rep_1", key_limits=key)
    with pytest.raises(ApiError, match=says) as over:
        await admission.ask(route, opened(2), 10, "rep_1", key_limits=key)
    headers = dict(over.value.headers)
    assert (over.value.status, over.value.code) == (429, "rate_limit_exceeded")
    assert (headers[b"x-should-retry"], int(headers[b"retry-after"]) > 0) == (b"true", True)


@pytest.mark.parametrize("tight", ["key", "tenant", "contract"])
async def test_a_refused_request_consumes_nothing_of_anyone(admission: Admission, store: Any, tight: str) -> None:
    wide, narrow = Limits(10, 1000, 5), Limits(10, 10, 5)
    at = {"key": wide, "tenant": wide, "contract": wide} | {tight: narrow}
    route = make_route(limits=at["contract"], tenant_limits=at["tenant"])
    with pytest.raises(ApiError, match="needs up to 11 tokens") as over:
        await admission.ask(route, opened(), 11, "rep_1", key_limits=at["key"])
    assert dict(over.value.headers)[b"x-should-retry"] == b"false"  # it never fits as it is
    assert await store.keys("*") == []


async def test_the_headers_are_the_tightest_limits(admission: Admission) -> None:
    route = make_route(limits=Limits(requests_per_min=50, tokens_per_min=100), tenant_limits=Limits(20, 900))
    grant = await admission.ask(route, opened(), 40, "rep_1", key_limits=Limits(30, 800))
    headers = dict(grant.headers)
    assert (headers[b"x-ratelimit-limit-requests"], headers[b"x-ratelimit-remaining-requests"]) == (b"20", b"19")
    assert (headers[b"x-ratelimit-limit-tokens"], headers[b"x-ratelimit-remaining-tokens"]) == (b"100", b"60")
    assert 59 <= float(headers[b"x-ratelimit-reset-tokens"].rstrip(b"s")) <= 60


async def test_two_gateways_share_every_limit(admission: Admission, other: Admission, store: Any) -> None:
    """200 at once through two gateways: 10 tokens each under 100 of the key, of the tenant or of the contract."""
    wide = Limits(1000, 10_000, 500)
    for narrow in (Limits(10, 10_000, 500), Limits(1000, 109, 500), Limits(1000, 10_000, 10)):
        for place in range(3):
            await store.flushdb()
            at = [narrow if place == number else wide for number in range(3)]
            route = make_route(limits=at[2], tenant_limits=at[1])
            gates = (admission, other)
            asked = [gates[n % 2].ask(route, opened(n), 10, "rep_1", key_limits=at[0]) for n in range(200)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(isinstance(answer, Grant) for answer in answers) == 10
            assert {answer.code for answer in answers if isinstance(answer, ApiError)} == {"rate_limit_exceeded"}
            for scope in SCOPES:
                requests, spent, leases = names.limits(scope)
                assert sum(int(n) for n in await store.hvals(requests)) == 10
                assert sum(int(n) for n in await store.hvals(spent)) == 100
                assert await store.zcard(leases) == 10


async def test_an_answer_settles_with_each_holder(door: StubDoor, store: Any, redis_url: str) -> None:
    key, token = make_key()
    key = replace(key, limits=Limits(5, 5000, 2))
    snapshot = make_snapshot([door.url], key, Limits(6, 6000, 3), tenant_limits=Limits(7, 7000, 4))
    scopes = (names.key_limits(key.id), *SCOPES[1:])
    door.behave = tokens(60, 0.02)
    async with running_gateway(snapshot, token, redis_url) as running:
        async with running.post() as answer:
            await answer.content.readuntil(b"t1 ")
            for scope in scopes:
                assert await store.zcard(names.limits(scope)[2]) == 1
            await _renewed(running.gateway, store, [names.limits(scope)[2] for scope in scopes])
            await answer.read()
        for scope in scopes:
            _, spent, leases = names.limits(scope)

            async def given_back(spent: str = spent, leases: str = leases) -> bool:
                return await store.hvals(spent) == ["72"] and await store.exists(leases) == 0

            await _until(given_back)
        async with running.post() as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "3"


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await check():  # noqa: ASYNC110 - the store has no event to wait for
            await asyncio.sleep(0.01)


async def _renewed(gateway: Gateway, store: Any, leases: list[str]) -> None:
    """The beat moves the end of each lease, also of one that is nearly over."""
    (request_id,) = gateway.open
    now = (await store.time())[0]
    for key in leases:
        await store.zadd(key, {request_id: now + 2})

    async def moved() -> bool:
        ends = [await store.zscore(key, request_id) for key in leases]
        return all(end is not None and end > now + 25 for end in ends)

    await _until(moved)


async def test_the_error_is_openais(door: StubDoor, store: Any, redis_url: str) -> None:
    key, token = make_key()
    key = replace(key, limits=Limits(requests_per_min=1))
    async with running_gateway(make_snapshot([door.url], key), token, redis_url) as running:
        async with running.post() as answer:
            await answer.read()
        async with running.post() as answer:
            body = json.loads(await answer.read())["error"]
            assert (answer.status, answer.headers["x-should-retry"]) == (429, "true")
    assert set(body) == {"message", "type", "param", "code"}
    assert (body["type"], body["param"], body["code"]) == ("rate_limit_error", None, "rate_limit_exceeded")
    assert len(door.calls) == 1


async def test_without_redis_a_tenant_is_served_or_refused_as_it_chose(
    door: StubDoor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis stops: what no limit is on passes all the same, and afterwards counting goes on."""
    limits = Limits(requests_per_min=100)
    cases = [(limits, True, 200), (limits, False, 503), (Limits(), False, 200)]
    server = EmbeddedRedis(tmp_path / "redis")
    key, token = make_key()
    try:
        async with running_gateway(make_snapshot([door.url], key), token, server.url) as running:
            server.stop()
            for contract, admits, expected in cases:
                snapshot = make_snapshot([door.url], key, contract, admits_uncounted=admits)
                running.keeper.change(routes=snapshot.routes)
                for _ in range(3):
                    async with running.post(chat(stream=False)) as answer:
                        body = await answer.json()
                    assert answer.status == expected
                    if expected == 503:
                        assert body["error"]["code"] == "limits_unavailable"
                        assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("1", "true")
            assert running.gateway.admission.uncounted == {"admitted": 6, "refused": 3}
            assert "limits_away" in caplog.messages
            assert len(door.calls) == 6
            server = EmbeddedRedis(tmp_path / "redis")
            running.keeper.change(routes=make_snapshot([door.url], key, limits, admits_uncounted=False).routes)

            async def counted() -> bool:
                async with running.post(chat(stream=False)) as answer:
                    await answer.read()
                return "x-ratelimit-limit-requests" in answer.headers

            await _until(counted)
    finally:
        server.stop()


@pytest.mark.parametrize(("admits", "spent"), [(True, "15"), (False, "0")])
async def test_a_reservation_whose_answer_was_lost_is_given_back(
    door: StubDoor, store: Any, redis_url: str, admits: bool, spent: str
) -> None:
    """Served uncounted, or refused: the request's close finds what Redis had reserved all the same."""
    key, token = make_key()
    snapshot = make_snapshot([door.url], key, Limits(None, 5000, 1), admits_uncounted=admits)
    async with running_gateway(snapshot, token, redis_url) as running:
        script = running.gateway.admission._script

        async def lost(*call: Any) -> Any:
            await script(*call)
            raise RedisConnectionError("the answer was lost")

        running.gateway.admission._script = lost  # type: ignore[assignment]
        async with running.post(chat(stream=False)) as answer:
            assert answer.status == (200 if admits else 503)
        _, tokens_key, leases = names.limits(SCOPES[2])

        async def given_back() -> bool:
            return await store.hvals(tokens_key) == [spent] and await store.exists(leases) == 0

        await _until(given_back)
