"""Doors that refuse, break, fill up and come back; and what a client notices of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from berth.live import names
from helpers.gateway import DEPLOYMENT, Running, chat, events, make_replica
from helpers.patience import PATIENCE_S
from helpers.stub_door import Call, StubDoor, good, tokens


async def last_record(store: Any) -> dict[str, Any]:
    for _ in range(200):
        if entries := await store.xrevrange(names.USAGE_STREAM, count=1):
            return dict(json.loads(entries[0][1]["record"]))
        await asyncio.sleep(0.01)
    raise AssertionError("no record")


async def test_no_replica(running: Running, store: Any) -> None:
    running.keeper.change(replicas={})
    async with running.post() as answer:
        error = (await answer.json())["error"]
    assert (answer.status, error["code"]) == (503, "no_ready_replica")
    assert int(answer.headers["retry-after"]) >= 1
    record = await last_record(store)
    assert (record["outcome"], record["offered"], record["reason"]) == ("refused", True, "refused")
    assert record.get("reached", False) is False


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", ["refused", "reset before headers", "reset after the role frame"])
async def test_a_dead_door_costs_no_request_without_a_token(
    two: Running, doors: list[StubDoor], store: Any, how: str, stream: bool
) -> None:
    async def breaks(call: Call) -> None:
        if how.endswith("frame"):
            await call.start()
            await asyncio.sleep(0.02)
        call.reset()

    async with two.post() as answer:  # which door is first for this conversation
        await answer.read()
    first, second = doors if doors[0].calls else doors[::-1]
    first.behave, first.healthy = breaks, False
    if how == "refused":
        await first.stop()
    await store.delete(names.USAGE_STREAM)

    async with two.post(chat(stream=stream)) as answer:
        assert answer.status == 200
        text = await answer.text()
    assert "three" in text
    assert text.count('"role"') == 1
    record = await last_record(store)
    assert (record["outcome"], record["completion_tokens"], record["good"]) == ("completed", 3, True)
    assert len(second.calls) == 1
    async with two.post() as answer:  # ejected: nobody asks the dead one first
        await answer.read()
    assert len(second.calls) == 2


async def test_a_door_that_breaks_after_a_token_ends_the_stream_with_an_error(
    two: Running, doors: list[StubDoor], store: Any
) -> None:
    async def breaks(call: Call) -> None:
        await call.start()
        await call.token("half")
        await asyncio.sleep(0.05)
        call.reset()

    for door in doors:
        door.behave = breaks
    async with two.post() as answer:
        found = events(await answer.text())
    assert json.loads(found[-1][1])["error"]["code"] == "replica_lost"
    assert len(doors[0].calls) + len(doors[1].calls) == 1
    record = await last_record(store)
    assert (record["outcome"], record["reason"], record["completion_tokens"]) == ("truncated", "failed", 1)


async def test_a_whole_answer_survives_a_door_that_breaks_half_way(
    two: Running, doors: list[StubDoor], store: Any
) -> None:
    """The client has seen nothing yet, so another door may begin again."""
    broken: list[Call] = []

    async def breaks_once(call: Call) -> None:
        if broken:
            return await good(call)
        broken.append(call)
        await call.start()
        await call.token("half")
        await asyncio.sleep(0.05)
        return call.reset()

    for door in doors:
        door.behave = breaks_once
    async with two.post(chat(stream=False)) as answer:
        body = await answer.json()
    assert body["choices"][0]["message"]["content"] == "one two three"
    assert (await last_record(store))["completion_tokens"] == 3


async def test_an_ejected_door_comes_back_when_it_answers(running: Running, door: StubDoor) -> None:
    await door.stop()
    for _ in range(2):
        async with running.post() as answer:
            assert answer.status == 503
    await door.start()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with running.post() as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.02)
    assert door.probes >= 1


async def test_a_full_door_is_followed_by_one_other(two: Running, doors: list[StubDoor]) -> None:
    async def full(call: Call) -> None:
        await call.refuse(503, "queue_full", retry_after="7")

    async with two.post() as answer:
        await answer.read()
    first, second = doors if doors[0].calls else doors[::-1]
    first.behave = full
    async with two.post() as answer:
        assert answer.status == 200
    assert len(second.calls) == 1
    second.behave = full
    async with two.post() as answer:
        assert answer.status == 503
        assert (await answer.json())["error"]["code"] == "queue_full"
        assert answer.headers["retry-after"] == "7"
    assert (len(first.calls), len(second.calls)) == (3, 2)


async def test_a_door_that_would_be_late_is_followed_by_one_other_and_its_429_passes_through(
    two: Running, doors: list[StubDoor], store: Any
) -> None:
    async def late(call: Call) -> None:
        await call.refuse(429, "predicted_late", retry_after="4", x_should_retry="true")

    async with two.post() as answer:
        await answer.read()
    first, second = doors if doors[0].calls else doors[::-1]
    first.behave = late
    async with two.post() as answer:
        assert answer.status == 200, "the other has room"
    second.behave = late
    async with two.post() as answer:
        assert answer.status == 429
        assert (await answer.json())["error"]["code"] == "predicted_late"
        assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("4", "true")
    assert (len(first.calls), len(second.calls)) == (3, 2)
    record = await last_record(store)
    assert (record["outcome"], record["status"], record.get("reached", False)) == ("refused", 429, False)
    assert (record["offered"], record.get("good", False), record["reason"]) == (True, False, "refused")
    assert record.get("completion_tokens", 0) == record.get("prompt_tokens", 0) == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_what_the_contract_wants_goes_to_the_door_and_what_became_of_it_to_the_client(
    running: Running, door: StubDoor, stream: bool
) -> None:
    async def degrades(call: Call) -> None:
        call.degraded = "ttft"
        await good(call)

    async with running.post(chat(stream=stream)) as answer:
        assert "x-berth-degraded" not in answer.headers
    assert "x-berth-when-late" not in door.calls[-1].headers
    snapshot = running.keeper.current
    routes = {name: replace(route, when_late="degrade") for name, route in snapshot.routes.items()}
    running.keeper.change(routes=routes)
    door.behave = degrades
    async with running.post(chat(stream=stream)) as answer:
        assert (answer.status, answer.headers["x-berth-degraded"]) == (200, "ttft")
    assert door.calls[-1].headers["x-berth-when-late"] == "degrade"


async def test_a_full_queue_is_not_ejected(running: Running, door: StubDoor, store: Any) -> None:
    async def full(call: Call) -> None:
        await call.refuse(503, "queue_full")

    door.behave = full
    async with running.post() as answer:
        assert answer.status == 503
    record = await last_record(store)
    assert (record["outcome"], record["status"], record.get("reached", False)) == ("refused", 503, False)
    door.behave = good
    async with running.post() as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (503, "queue_timeout", "queue_timeout"),
        (500, "engine_failed", "failed"),
    ],
)
async def test_a_doors_own_errors(
    running: Running, door: StubDoor, store: Any, status: int, code: str, outcome: str
) -> None:
    async def fails(call: Call) -> None:
        await call.refuse(status, code)

    door.behave = fails
    async with running.post() as answer:
        assert (answer.status, set((await answer.json())["error"])) == (status, {"message", "type", "param", "code"})
    record = await last_record(store)
    assert (record["outcome"], record["offered"], record["reached"]) == (outcome, True, True)


async def test_too_long_a_prompt_is_the_doors_word(running: Running, door: StubDoor, store: Any) -> None:
    async def too_long(call: Call) -> None:
        await call.refuse(400, "context_length_exceeded")

    door.behave = too_long
    async with running.post() as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, "context_length_exceeded")
    await asyncio.sleep(0.05)
    assert await store.xlen(names.USAGE_STREAM) == 0
    assert await store.smembers(names.OPEN_REQUESTS) == set()


async def test_a_loading_replica_is_asked_only_once_it_is_ready(running: Running, door: StubDoor) -> None:
    door.healthy = False
    running.keeper.change(replicas={DEPLOYMENT: (make_replica(door.url, 7, ready=False),)})
    async with running.post() as answer:
        assert answer.status == 503
    door.healthy = True
    await asyncio.sleep(0.8)
    async with running.post() as answer:
        assert answer.status == 200


async def test_a_conversation_stays_where_its_prefix_is(two: Running, doors: list[StubDoor]) -> None:
    """Ten conversations of three turns: each at one door, and not all at the same."""
    homes = []
    for number in range(10):
        messages = [{"role": "user", "content": f"conversation {number}"}]
        counts = [len(door.calls) for door in doors]
        for turn in range(3):
            async with two.post(chat(messages=messages)) as answer:
                await answer.read()
            messages += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": f"turn {turn}"}]
        rises = [len(door.calls) - before for door, before in zip(doors, counts, strict=True)]
        assert sorted(rises) == [0, 3]
        homes.append(rises.index(3))
    assert set(homes) == {0, 1}


async def test_open_streams_keep_their_door_when_the_snapshot_changes(running: Running, door: StubDoor) -> None:
    door.behave = tokens(20, 0.02)
    async with running.post() as answer:
        await answer.content.readuntil(b"t1 ")
        running.keeper.change(keys={}, routes={}, replicas={})
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
