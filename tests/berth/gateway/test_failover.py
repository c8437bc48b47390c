"""Doors that break in the middle of an answer, and others that go on with it: the client sees one stream."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.gateway.failover import MOST_RESUMES
from berth.gateway.frames import DONE, StreamFilter
from berth.live import names
from gpuruntime.door.errors import ApiError as DoorError
from gpuruntime.goodput import ServiceLevel
from gpuruntime.marks import mark, read_marks
from gpuruntime.tools.formats import HERMES
from helpers.door import TOKEN, ScriptedBackend, open_door
from helpers.gateway import (
    DEPLOYMENT,
    MODEL,
    Running,
    chat,
    events,
    make_key,
    make_replica,
    make_snapshot,
    running_gateway,
)
from helpers.patience import PATIENCE_S, soon
from helpers.stub_door import Behaviour, Call, StubDoor, good, stub_doors

WORDS = [f"word{number} " for number in range(8)]
HOWS = ["reset", "ended early", "engine_failed", "replica_stopped", "in front of a mark"]


async def breaking_off(call: Call, how: str) -> None:
    await asyncio.sleep(0.02)  # what was written arrives before the end does
    if how == "in front of a mark":  # what came is nobody's, so the next door says it again
        await call.chunk(call.frame('{"content":"never shown"}'))
        await asyncio.sleep(0.02)
    if how in {"engine_failed", "replica_stopped"}:
        error = {"error": {"message": how, "type": "server_error", "param": None, "code": how}}
        await call.chunk(b"data: " + json.dumps(error).encode() + b"\n\n")
        await call.write(b"0\r\n\r\n")
    elif how == "ended early":
        await call.write(b"0\r\n\r\n")
    else:
        call.reset()


def says(words: Sequence[str], *, breaks_after: int | None = None, how: str = "reset", choices: int = 1) -> Behaviour:
    """A door that marks its tokens and goes on behind the marks it is given; it may break off after some of its own."""

    async def behave(call: Call) -> None:
        have = {choice: len(begun.tokens) for choice, begun in read_marks(call.marks).items()}
        call.tokens, said = sum(have.values()), 0
        await call.open("x-berth-marks: a-model")
        for at, choice in itertools.product(range(len(words)), range(choices)):
            if at < have.get(choice, 0):
                continue
            if said == breaks_after:
                await breaking_off(call, how)
                return
            said += 1
            call.tokens += 1
            group = call.frame('{"role":"assistant","content":""}', index=choice) if at == 0 else b""
            group += call.frame('{"content":' + json.dumps(words[at]) + "}", index=choice)
            last = at == len(words) - 1
            group += call.frame("{}", '"length"', index=choice) if last else b""
            await call.chunk(group + mark(choice, [at], "length" if last else None))
            await asyncio.sleep(0.002)
        await call.chunk(call.last({"queue_ms": None, "cached_tokens": 3, "new_prompt_tokens": 9}))
        await call.write(b"0\r\n\r\n")

    return behave


def once(first: Behaviour, then: Behaviour) -> Behaviour:
    """Of all doors that share it, the first that is called does ``first``."""
    called: list[Call] = []

    async def behave(call: Call) -> None:
        called.append(call)
        await (first if len(called) == 1 else then)(call)

    return behave


async def record_of(store: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not (entries := await store.xrevrange(names.USAGE_STREAM, count=1)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await store.xlen(names.USAGE_STREAM) == 1
    return dict(json.loads(entries[0][1]["record"]))


def text_of(raw: str, choice: int = 0) -> str:
    assert ":ids" not in raw
    chunks = [json.loads(data) for _, data in events(raw) if data != "[DONE]"]
    shown = [one for chunk in chunks for one in chunk.get("choices", ()) if one["index"] == choice]
    assert [one["delta"].get("role") for one in shown].count("assistant") == 1
    return "".join(one["delta"].get("content") or "" for one in shown)


@contextlib.asynccontextmanager
async def gateway_of(count: int, redis_url: str, **route: Any) -> AsyncIterator[tuple[Running, list[StubDoor]]]:
    key, token = make_key()
    async with stub_doors(count) as doors:
        snapshot = make_snapshot([door.url for door in doors], key, **route)
        async with running_gateway(snapshot, token, redis_url) as running:
            yield running, doors


@pytest.mark.parametrize("how", HOWS)
async def test_a_broken_answer_goes_on_at_another_door(
    two: Running, doors: list[StubDoor], store: Any, how: str
) -> None:
    for door in doors:
        door.behave = once(says(WORDS, breaks_after=3, how=how), says(WORDS))
        doors[1].behave = doors[0].behave
    async with two.post(chat(stream_options={"include_usage": True})) as answer:
        raw = await answer.text()
    assert text_of(raw) == "".join(WORDS)
    assert raw.count("[DONE]") == 1
    last = json.loads(events(raw)[-2][1])
    assert last["usage"]["completion_tokens"] == len(WORDS)
    first, second = sorted((door.calls[0] for door in doors), key=lambda call: len(call.marks))
    assert second.marks == b"0 0\n0 1\n0 2\n"
    assert first.body == second.body
    assert first.headers["x-berth-created"] == second.headers["x-berth-created"]
    record = await record_of(store)
    assert (record["outcome"], record["completion_tokens"], record["prompt_tokens"]) == ("completed", len(WORDS), 12)
    assert (record["tries"], record["resumes"], record["cached_tokens"]) == (2, 1, 3)
    assert record["max_gap_us"] >= 20_000  # until the door broke: the gap is the client's, and the clock's
    assert two.gateway.resumed == 1


async def test_a_whole_answer_goes_on_too(two: Running, doors: list[StubDoor], store: Any) -> None:
    doors[0].behave = doors[1].behave = once(says(WORDS, breaks_after=5), says(WORDS))
    async with two.post(chat(stream=False)) as answer:
        body = await answer.json()
    assert body["choices"][0]["message"]["content"] == "".join(WORDS)
    assert body["usage"]["completion_tokens"] == len(WORDS)
    assert [len(door.calls) for door in doors] == [1, 1]
    assert (await record_of(store))["completion_tokens"] == len(WORDS)


async def test_every_choice_goes_on(two: Running, doors: list[StubDoor], store: Any) -> None:
    doors[0].behave = doors[1].behave = once(says(WORDS, breaks_after=7, choices=3), says(WORDS, choices=3))
    async with two.post(chat(n=3)) as answer:
        raw = await answer.text()
    assert [text_of(raw, choice) for choice in range(3)] == ["".join(WORDS)] * 3
    assert (await record_of(store))["completion_tokens"] == 3 * len(WORDS)


async def test_an_answer_that_only_lacks_its_end_gets_it(two: Running, doors: list[StubDoor], store: Any) -> None:
    async def forgets_the_end(call: Call) -> None:
        call.last = lambda timings: b""  # type: ignore[method-assign]
        await says(WORDS)(call)

    doors[0].behave = doors[1].behave = once(forgets_the_end, says(WORDS))
    async with two.post() as answer:
        raw = await answer.text()
    assert (text_of(raw), raw.count("[DONE]")) == ("".join(WORDS), 1)


async def test_a_request_that_breaks_every_door_is_given_up(redis_url: str, store: Any) -> None:
    async with gateway_of(MOST_RESUMES + 2, redis_url) as (running, doors):
        for door in doors:
            door.behave = says(WORDS, breaks_after=1)
        async with running.post() as answer:
            raw = await answer.text()
        assert json.loads(events(raw)[-1][1])["error"]["code"] == "replica_lost"
        assert "[DONE]" not in raw
        assert sum(len(door.calls) for door in doors) == MOST_RESUMES + 1
        record = await record_of(store)
        assert (record["outcome"], record["completion_tokens"]) == ("truncated", MOST_RESUMES + 1)


@pytest.mark.parametrize(("how", "code"), [("reset", "replica_lost"), ("replica_stopped", "replica_stopped")])
async def test_without_another_door_the_answer_ends_with_an_error(
    running: Running, door: StubDoor, store: Any, how: str, code: str
) -> None:
    door.behave = says(WORDS, breaks_after=2, how=how)
    async with running.post() as answer:
        raw = await answer.text()
    assert json.loads(events(raw)[-1][1])["error"]["code"] == code
    assert "[DONE]" not in raw
    assert ((await record_of(store))["outcome"], len(door.calls)) == ("truncated", 1)


@pytest.mark.parametrize(("status", "code"), [(503, "queue_full"), (409, "other_model"), (400, "invalid_value")])
async def test_who_cannot_go_on_is_followed_by_who_can(redis_url: str, store: Any, status: int, code: str) -> None:
    refusals = []

    async def refuses(call: Call) -> None:
        refusals.append(call)
        if len(refusals) < 3:
            await call.refuse(status, code)
        else:
            await says(WORDS)(call)

    async with gateway_of(4, redis_url) as (running, doors):
        behave = once(says(WORDS, breaks_after=2), refuses)
        for door in doors:
            door.behave = behave
        async with running.post() as answer:
            assert text_of(await answer.text()) == "".join(WORDS)
        assert len(refusals) == 3


async def test_what_was_promised_by_a_time_that_has_passed_does_not_go_on(redis_url: str, store: Any) -> None:
    level = ServiceLevel(base_ms=1000, e2e_ms=1)
    async with gateway_of(2, redis_url, level=level) as (running, doors):
        doors[0].behave = doors[1].behave = once(says(WORDS, breaks_after=2), good)
        async with running.post() as answer:
            assert json.loads(events(await answer.text())[-1][1])["error"]["code"] == "replica_lost"
        assert sum(len(door.calls) for door in doors) == 1


async def test_the_next_token_of_a_resumed_answer_has_a_deadline_of_its_own(
    two: Running, doors: list[StubDoor]
) -> None:
    doors[0].behave = doors[1].behave = once(says(WORDS, breaks_after=3), says(WORDS))
    async with two.post() as answer:
        await answer.read()
    second = next(door.calls[0] for door in doors if door.calls[0].marks)
    assert second.headers["x-slo-ttft-ms"] == "1000.0"


async def test_who_left_is_not_gone_on_with(two: Running, doors: list[StubDoor], store: Any) -> None:
    gone = asyncio.Event()

    async def breaks_once_it_is_left(call: Call) -> None:
        await call.open("x-berth-marks: a-model")
        call.tokens = 1
        await call.chunk(call.frame('{"role":"assistant","content":"half"}') + mark(0, [0]))
        await gone.wait()
        call.reset()

    doors[0].behave = doors[1].behave = once(breaks_once_it_is_left, says(WORDS))
    async with two.post() as answer:
        await answer.content.readuntil(b"half")
    assert (await record_of(store))["outcome"] == "client_left"
    gone.set()
    await asyncio.sleep(0.05)
    assert sum(len(door.calls) for door in doors) == 1


# --- Real doors -----------------------------------------------------------------------------------------------------

TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
SAID = (
    "<think>", "hm", "</th", "ink>\n", "Let me ", "see.\n<tool", '_call>{"name": "add", "argu', 'ments": {"a": 1',
    ', "b": "\u00e9"}}', "</tool_call>\n<tool_call>", '{"name": "add", "arguments": {}}', "</tool_call>",
)  # fmt: skip


def shown(raw: str) -> tuple[list[Any], Any]:
    """What a client sees, without what differs between two requests: their ids and times."""
    chunks = [json.loads(data) for _, data in events(raw) if data != "[DONE]"]
    assert len({(chunk["id"], chunk["created"]) for chunk in chunks}) == 1
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    ids = [call.pop("id") for call in calls if "id" in call]
    assert len(ids) == len(set(ids))
    return choices, chunks[-1]["usage"]


@pytest.mark.parametrize("more", [{"tools": [TOOL]}, {"logprobs": True, "top_logprobs": 1}])
async def test_real_doors_hand_an_answer_over_without_a_seam(redis_url: str, store: Any, more: Any) -> None:
    """Each door is told to stop after a while: the answer is three doors' work."""
    backends = [ScriptedBackend(step_s=0.03, says=SAID, tool_format=HERMES, thinks=True) for _ in range(4)]
    body = chat(model="m", max_tokens=99, stream_options={"include_usage": True}, **more)
    key, token = make_key()
    async with contextlib.AsyncExitStack() as stack:
        doors = [
            await stack.enter_async_context(open_door(one, replica_id=f"rep_{at}")) for at, one in enumerate(backends)
        ]
        replicas = tuple(replace(make_replica(door.url, at), token=TOKEN) for at, door in enumerate(doors))
        snapshot = replace(make_snapshot([], key, model="m"), replicas={DEPLOYMENT: replicas})
        fronted = await stack.enter_async_context(running_gateway(snapshot, token, redis_url))
        async with fronted.post(body) as answer:
            whole = shown(await answer.text())
        await store.delete(names.USAGE_STREAM)

        async def stops_doors() -> None:
            for steps in (4, 7):
                before = [len(one.order) for one in backends]
                await soon(lambda before=before, steps=steps: _working(backends, before, steps))  # type: ignore[misc]
                for door in doors:
                    for run in list(door.replica.active):
                        run.fail(DoorError(503, "The replica stops.", code="replica_stopped", retry_after_s=1))

        stopping = asyncio.create_task(stops_doors())
        async with fronted.post(body) as answer:
            assert shown(await answer.text()) == whole
        await stopping
        assert fronted.gateway.resumed == 2
        record = await record_of(store)
        assert (record["completion_tokens"], record["resumes"], record["tries"]) == (len(SAID), 2, 3)


def _working(backends: Sequence[ScriptedBackend], before: Sequence[int], steps: int) -> bool:
    """Whether a door that has begun since then has brought the answer to so many tokens."""
    begun = [one for one, count in zip(backends, before, strict=True) if len(one.order) > count]
    return any(one.generated.get(one.order[-1], 0) >= steps for one in begun)


# --- The filter alone: whatever is cut, the client has what the marks say -------------------------------------------


def written(groups: Sequence[Sequence[int]], start: int = 0) -> bytes:
    """A door's stream of groups of tokens, and the end as one more, behind the first ``start`` of them."""
    call = Call({"x-request-id": "r"}, {"model": MODEL}, None, None)  # type: ignore[arg-type]
    out, call.tokens = b"", sum(len(group) for group in groups[:start])
    for group in groups[start:]:
        call.tokens += len(group)
        out += call.frame('{"content":' + json.dumps(f"<{group}>") + "}") + mark(0, group)
    if start <= len(groups):
        out += call.frame("{}", '"stop"') + mark(0, [], "stop")
    return out + call.last({})


@given(
    groups=st.lists(st.lists(st.integers(0, 99_999), min_size=1, max_size=4), min_size=1, max_size=6),
    data=st.data(),
)
def test_however_a_stream_is_cut_nothing_is_lost_or_said_twice(groups: list[list[int]], data: st.DataObject) -> None:
    whole = StreamFilter(include_usage=True, continuous=False, model="m")
    expected = b"".join(whole.take(written(groups)))
    frames = StreamFilter(include_usage=True, continuous=False, model="m")
    got, counted = [], 0
    for _ in range(data.draw(st.integers(0, 3))):
        raw = written(groups, len(frames.marks.splitlines()))
        raw = raw[: data.draw(st.integers(0, len(raw) - len(DONE)))]
        middle = data.draw(st.integers(0, len(raw)))
        for part in (raw[:middle], raw[middle:]):
            got += frames.take(part)
            counted += sum(tokens for _, tokens in frames.risen())
        said = read_marks(bytes(frames.marks)).get(0)
        assert counted == (len(said.tokens) if said else 0)
        frames.cut()
    got += frames.take(written(groups, len(frames.marks.splitlines())))
    counted += sum(tokens for _, tokens in frames.risen())
    assert b"".join(got) == expected
    assert counted == sum(len(group) for group in groups)
    assert frames.done


# --- While nothing comes -----------------------------------------------------------------------------------------


async def waiting(running: Running, door: StubDoor) -> None:
    """The request is at the door and has been for longer than a client should hear nothing."""
    await asyncio.wait_for(door.called.wait(), PATIENCE_S)
    (exchange,) = running.gateway.open.values()
    exchange.check(exchange._sent_s + 9.9)  # too early
    exchange.check(exchange._sent_s + 10.0)


async def test_a_client_that_waits_hears_comments(running: Running, door: StubDoor, store: Any) -> None:
    gate = asyncio.Event()

    async def slow(call: Call) -> None:
        await gate.wait()
        await good(call)

    door.behave = slow
    asking = asyncio.create_task(running.http.post(**_post(running)))
    await waiting(running, door)
    answer = await asyncio.wait_for(asking, PATIENCE_S)
    assert answer.status == 200
    assert await answer.content.readuntil(b"\n\n") == b": keep-alive\n\n"
    await waiting(running, door)
    assert await answer.content.readuntil(b"\n\n") == b": keep-alive\n\n"
    gate.set()
    raw = (await answer.read()).decode()
    assert text_of(raw) == "one two three"
    record = await record_of(store)
    assert record["ttft_us"] > 0
    assert record["completion_tokens"] == 3


def _post(running: Running, **more: Any) -> dict[str, Any]:
    return {"url": f"{running.base}/v1/chat/completions", "json": chat(**more), "headers": running.headers}


async def test_what_fails_behind_a_comment_is_an_event(running: Running, door: StubDoor, store: Any) -> None:
    gate = asyncio.Event()

    async def times_out(call: Call) -> None:
        await gate.wait()
        await call.refuse(503, "queue_timeout")

    door.behave = times_out
    asking = asyncio.create_task(running.http.post(**_post(running)))
    await waiting(running, door)
    answer = await asyncio.wait_for(asking, PATIENCE_S)
    gate.set()
    raw = (await answer.read()).decode()
    assert json.loads(events(raw)[-1][1])["error"]["code"] == "queue_timeout"
    assert "[DONE]" not in raw
    record = await record_of(store)
    assert (record["outcome"], record["status"]) == ("queue_timeout", 503)


async def test_a_whole_answer_has_no_comments(running: Running, door: StubDoor) -> None:
    gate = asyncio.Event()

    async def slow(call: Call) -> None:
        await gate.wait()
        await good(call)

    door.behave = slow
    asking = asyncio.create_task(running.http.post(**_post(running, stream=False)))
    await waiting(running, door)
    gate.set()
    body = await (await asyncio.wait_for(asking, PATIENCE_S)).json()
    assert body["choices"][0]["message"]["content"] == "one two three"


async def test_openais_client_reads_over_comments(running: Running, door: StubDoor) -> None:
    gate = asyncio.Event()

    async def slow(call: Call) -> None:
        await gate.wait()
        await good(call)

    door.behave = slow
    async with openai.AsyncOpenAI(base_url=f"{running.base}/v1", api_key=running.token, max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "Say something."}]
        asking = asyncio.create_task(client.chat.completions.create(model=MODEL, messages=messages, stream=True))
        await waiting(running, door)
        stream = await asyncio.wait_for(asking, PATIENCE_S)
        gate.set()
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(texts) == "one two three"
