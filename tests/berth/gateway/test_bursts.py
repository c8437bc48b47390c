"""Guaranteed rates and bursts on a real Redis: what passes with room and without, and what is recorded of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from berth.gateway.admission import Admission
from berth.gateway.errors import ApiError
from berth.gateway.snapshot import Limits
from berth.live import names
from helpers.gateway import make_key, make_route, make_snapshot, opened, running_gateway
from helpers.stub_door import Call, StubDoor, tokens

LIMITS = Limits(requests_per_min=2, tokens_per_min=100, burst_requests_per_min=3, burst_tokens_per_min=50)


async def test_the_burst_passes_while_there_is_room(admission: Admission) -> None:
    route = make_route(limits=LIMITS)
    grants = [await admission.ask(route, opened(number), 10, "rep_1", room=True) for number in range(5)]
    assert [grant.burst for grant in grants] == [False, False, True, True, True]
    assert dict(grants[0].headers)[b"x-ratelimit-limit-requests"] == b"5"
    with pytest.raises(ApiError, match="limit of 5 requests a minute"):
        await admission.ask(route, opened(6), 10, "rep_1", room=True)


async def test_without_room_the_guaranteed_rate_is_left(admission: Admission) -> None:
    route = make_route(limits=LIMITS)
    for number in range(2):
        grant = await admission.ask(route, opened(number), 10, "rep_1", room=False)
        assert not grant.burst
    with pytest.raises(
        ApiError, match=r"limit of 2 requests a minute .* burst beyond it waits until a replica has room"
    ):
        await admission.ask(route, opened(3), 10, "rep_1", room=False)
    assert (await admission.ask(route, opened(3), 10, "rep_1", room=True)).burst


async def test_tokens_burst_as_requests_do(admission: Admission) -> None:
    route = make_route(limits=Limits(tokens_per_min=100, burst_tokens_per_min=50))
    assert not (await admission.ask(route, opened(1), 100, "rep_1")).burst
    assert (await admission.ask(route, opened(2), 50, "rep_1")).burst
    with pytest.raises(ApiError, match="limit of 150 tokens a minute"):
        await admission.ask(route, opened(3), 1, "rep_1")


async def test_a_crowd_gets_what_is_guaranteed_and_the_burst_and_no_more(admission: Admission) -> None:
    route = make_route(limits=LIMITS)
    asked = [admission.ask(route, opened(number), 1, "rep_1", room=True) for number in range(40)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(not isinstance(answer, Exception) for answer in answers) == 5


async def test_a_full_door_has_no_room_for_bursts_and_the_record_says_who_burst(
    door: StubDoor, store: Any, redis_url: str
) -> None:
    async def full(call: Call) -> None:
        call.load = "running=8, queued=3, capacity=8, ttft_ms=5.0, kv_free=0.900"
        await tokens(2)(call)

    key, token = make_key()
    limits = Limits(requests_per_min=1, burst_requests_per_min=5)
    async with running_gateway(make_snapshot([door.url], key, limits), token, redis_url) as running:
        for _ in range(2):
            async with running.post() as answer:
                assert answer.status == 200
                await answer.read()
        door.behave = full
        async with running.post() as answer:  # there was room when it came; its answer says that there is none now
            assert answer.status == 200
            await answer.read()
        async with running.post() as answer:
            assert answer.status == 429
            assert "has room" in (await answer.json())["error"]["message"]
        for _ in range(200):
            records = [json.loads(fields["record"]) for _, fields in await store.xrange(names.USAGE_STREAM)]
            if len(records) == 3:
                break
            await asyncio.sleep(0.01)
    assert [record.get("burst", False) for record in records] == [False, True, True]
    first = records[0]
    assert (first["tpot_limit_us"], first["fluidity_floor"], first["tries"]) == (100_000, 0.99, 1)
    assert first["ready_at_arrival"] is True
