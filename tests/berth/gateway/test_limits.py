"""Admission on a real Redis: all limits or none, exact windows, what is given back, an open gate without it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import asyncio as aioredis

from berth.embedded.redis import EmbeddedRedis
from berth.gateway.admission import Admission
from berth.gateway.errors import ApiError
from berth.gateway.snapshot import Limits
from berth.live import names
from helpers.gateway import (
    DEPLOYMENT,
    TENANT,
    Running,
    chat,
    make_key,
    make_route,
    make_snapshot,
    opened,
    running_gateway,
)
from helpers.stub_door import Call, StubDoor, tokens

SCOPE = f"{TENANT}:{DEPLOYMENT}"


async def test_requests_a_minute(admission: Admission) -> None:
    route = make_route(limits=Limits(requests_per_min=3))
    lefts = []
    for number in range(3):
        grant = await admission.ask(route, opened(number), 10, "rep_1")
        lefts.append(dict(grant.headers)[b"x-ratelimit-remaining-requests"])
    assert lefts == [b"2", b"1", b"0"]
    with pytest.raises(ApiError, match="limit of 3 requests a minute") as over:
        await admission.ask(route, opened(4), 10, "rep_1")
    assert (over.value.status, over.value.code) == (429, "rate_limit_exceeded")
    headers = dict(over.value.headers)
    assert 55 <= int(headers[b"retry-after"]) <= 60
    assert headers[b"x-ratelimit-limit-requests"] == b"3"


async def test_a_refused_request_leaves_no_trace(admission: Admission, store: Any) -> None:
    """Over one limit of three: the other two are untouched and nothing is open."""
    route = make_route(limits=Limits(requests_per_min=10, tokens_per_min=100, max_concurrency=5))
    with pytest.raises(ApiError, match="needs up to 101 tokens"):
        await admission.ask(route, opened(), 101, "rep_1")
    assert await store.keys("*") == []


async def test_the_window_slides_by_the_second(admission: Admission, store: Any) -> None:
    """Counters of the last 60 seconds count, older ones do not: written by hand, summed by the script."""
    requests, tokens_key, _ = names.limits(SCOPE)
    second = (await store.time())[0]
    for age, used in ((61, 500), (60, 500), (59, 30), (10, 20)):
        await store.hset(tokens_key, second - age, used)
    route = make_route(limits=Limits(tokens_per_min=100))
    grant = await admission.ask(route, opened(1), 50, "rep_1")
    assert dict(grant.headers)[b"x-ratelimit-remaining-tokens"] == b"0"
    with pytest.raises(ApiError) as over:  # 30 leave within a second or two: enough for 25
        await admission.ask(route, opened(2), 25, "rep_1")
    assert int(dict(over.value.headers)[b"retry-after"]) <= 2
    with pytest.raises(ApiError) as over:  # 45 need the next 20 as well: 50 s
        await admission.ask(route, opened(3), 45, "rep_1")
    assert 48 <= int(dict(over.value.headers)[b"retry-after"]) <= 51
    assert await store.hgetall(requests) == {}


async def test_a_crowd_is_let_in_to_the_last_place_and_no_further(admission: Admission) -> None:
    route = make_route(limits=Limits(max_concurrency=7, requests_per_min=100))
    asked = [admission.ask(route, opened(number), 5, "rep_1") for number in range(40)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(not isinstance(answer, Exception) for answer in answers) == 7
    assert {type(a) for a in answers if isinstance(a, Exception)} == {ApiError}


async def test_a_dead_gateways_places_come_back(admission: Admission, store: Any) -> None:
    route = make_route(limits=Limits(max_concurrency=1))
    await admission.ask(route, opened(1), 5, "rep_1")
    with pytest.raises(ApiError, match="limit of 1 requests at a time"):
        await admission.ask(route, opened(2), 5, "rep_1")
    leases = names.limits(SCOPE)[2]
    assert 25 < await store.zscore(leases, "req_1") - time.time() <= 31
    await store.zadd(leases, {"req_1": time.time() - 1})
    await admission.ask(route, opened(2), 5, "rep_1")


@pytest.fixture
async def limited(door: StubDoor, store: Any, redis_url: str) -> AsyncIterator[Running]:
    key, token = make_key()
    limits = Limits(requests_per_min=100, tokens_per_min=1000, max_concurrency=1)
    async with running_gateway(make_snapshot([door.url], key, limits), token, redis_url) as started:
        yield started


async def test_what_was_reserved_and_not_used_is_given_back(limited: Running, store: Any) -> None:
    body = json.dumps(chat(max_tokens=500)).encode()
    reserved = -(-len(body) // 3) + 64 + 500
    async with limited.post(body) as answer:
        assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
        assert answer.headers["x-ratelimit-remaining-tokens"] == str(1000 - reserved)
        await answer.read()
    for _ in range(100):
        used = await store.hvals(names.limits(SCOPE)[1])
        if used != [str(reserved)]:
            break
        await asyncio.sleep(0.01)
    assert used == ["15"]  # 12 of the prompt and 3 of the answer, as the door counted


async def test_one_at_a_time_means_one_after_the_other_works(limited: Running) -> None:
    for _ in range(20):
        async with limited.post(chat(stream=False, max_tokens=5)) as answer:
            assert answer.status == 200, await answer.text()


async def test_over_the_limit_is_429_and_the_clients_own_doing(limited: Running, door: StubDoor, store: Any) -> None:
    door.behave = tokens(100, 0.02)
    async with limited.post() as first:
        await first.content.readuntil(b"t1 ")
        async with limited.post() as answer:
            error = (await answer.json())["error"]
        assert (answer.status, error["type"], error["code"]) == (429, "rate_limit_error", "rate_limit_exceeded")
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-ratelimit-remaining-requests"] == "99"
    await asyncio.sleep(1.2)
    cells = [json.loads(f["cells"])[0][3] for _, f in await store.xrange(names.DELTAS_STREAM)]
    assert sum(cell.get("over_quota", 0) for cell in cells) == 1
    assert len(door.calls) == 1


async def test_without_redis_the_gate_is_open_and_the_records_wait(door: StubDoor, tmp_path: Path) -> None:
    """Redis stops under an open stream: it finishes, others start, and afterwards every record is there."""
    home = tmp_path / "redis"
    server = EmbeddedRedis(home)
    key, token = make_key()
    try:
        async with running_gateway(make_snapshot([door.url], key), token, server.url) as running:
            door.behave = tokens(40, 0.02)
            async with running.post() as stream:
                await stream.content.readuntil(b"t1 ")
                server.stop()
                door.behave = tokens(3)
                for _ in range(3):
                    async with running.post(chat(stream=False)) as answer:
                        assert answer.status == 200
                assert (await stream.read()).endswith(b"data: [DONE]\n\n")
            assert running.gateway.accounts.undelivered == 4
            server = EmbeddedRedis(home)
            client = aioredis.Redis.from_url(server.url, decode_responses=True)
            for _ in range(300):
                records = [json.loads(f["record"]) for _, f in await client.xrange(names.USAGE_STREAM)]
                if len(records) == 4:
                    break
                await asyncio.sleep(0.01)
            assert sorted(record["completion_tokens"] for record in records) == [3, 3, 3, 40]
            assert {record["outcome"] for record in records} == {"completed"}
            await client.aclose()
    finally:
        server.stop()


async def test_open_requests_say_each_second_how_far_they_are(limited: Running, door: StubDoor, store: Any) -> None:
    async def slow(call: Call) -> None:
        await call.start()
        for _ in range(200):
            await call.token()
            await asyncio.sleep(0.02)

    door.behave = slow
    async with limited.post() as answer:
        await answer.content.readuntil(b"tok")
        await asyncio.sleep(1.3)
        (request_id,) = await store.smembers(names.OPEN_REQUESTS)
        state = await store.hgetall(names.open_request(request_id))
        assert 10 < int(state["tokens"]) <= door.calls[0].tokens
        assert (state["prompt_tokens"], state["replica"]) == ("12", "rep_1")
        assert json.loads(state["record"])["tenant_id"] == TENANT
        assert 0 < await store.ttl(names.open_request(request_id)) <= 86400
    assert request_id == answer.headers["x-request-id"]
    await asyncio.sleep(1.2)  # a beat after the end does not bring it back
    assert await store.exists(names.open_request(request_id)) == 0
