"""The handler against a door that does what a test says: what a client sees, and what is written down of it."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import openai
import pytest
from asgiref.sync import SyncToAsync
from django.db.backends.utils import CursorWrapper

from berth.gateway.asked import parse_chat
from berth.live import names
from gpuruntime.goodput import ServiceLevel
from helpers.gateway import MODEL, TENANT, Running, chat, events, make_key, make_route
from helpers.patience import PATIENCE_S
from helpers.stub_door import Call, StubDoor, good, tokens


async def records(store: Any, count: int = 1, patience_s: float = 2.0) -> list[dict[str, Any]]:
    """What the gateway posted, once ``count`` records are there."""
    for _ in range(int(patience_s * 100)):
        entries = await store.xrange(names.USAGE_STREAM)
        if len(entries) >= count:
            return [json.loads(fields["record"]) for _, fields in entries]
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(entries)} records, {count} expected")


async def test_a_stream_is_passed_on_without_what_the_client_did_not_ask_for(running: Running, store: Any) -> None:
    async with running.post() as answer:
        text = await answer.text()
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"

    *chunks, last = [data for _, data in events(text)]
    assert last == "[DONE]"
    assert "usage" not in text
    assert "berth" not in text
    deltas = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert [d["delta"].get("content") for d in deltas] == ["", "one ", "two ", "three", None]
    assert deltas[-1]["finish_reason"] == "stop"
    (record,) = await records(store)
    assert record["request_id"] == answer.headers["x-request-id"]
    assert (record["tenant_id"], record["key_id"]) == (TENANT, f"key_{1:026d}")
    assert (record["prompt_tokens"], record["completion_tokens"]) == (12, 3)
    assert (record["outcome"], record["good"], record["finish_reason"]) == ("completed", True, "stop")
    assert (record["contract_id"], record["contract_version"], record["class_name"]) == ("con_1", 3, "chat")
    assert (record["queue_ms"], record["ideal_s"], record["executed_ideal_s"]) == (1.5, 0.25, 0.5)
    assert await store.smembers(names.OPEN_REQUESTS) == set()


@pytest.mark.parametrize("continuous", [False, True])
async def test_usage_is_told_as_it_was_asked_for(running: Running, continuous: bool) -> None:
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    async with running.post(chat(stream_options=options)) as answer:
        chunks = [json.loads(data) for _, data in events(await answer.text())[:-1]]

    assert chunks[-1]["choices"] == []
    assert "berth" not in chunks[-1]
    assert chunks[-1]["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    seen = [chunk["usage"] and chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]]
    assert seen == ([0, 1, 2, 3, 3] if continuous else [None] * 5)


async def test_a_whole_answer_is_put_together(running: Running, store: Any) -> None:
    async with running.post(chat(stream=False), headers={"x-berth-verdict": "1"}) as answer:
        body = await answer.json()

    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "one two three", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    assert body["berth"]["good"] is True
    assert body["berth"]["tokens"] == 3
    (record,) = await records(store)
    assert record["stream"] is False
    assert 0 < record["ttft_us"] < record["e2e_us"] < 2_000_000


async def test_the_verdict_is_the_last_event_before_done(running: Running) -> None:
    async with running.post(headers={"x-berth-verdict": "1"}) as answer:
        found = events(await answer.text())

    assert found[-1] == ("", "[DONE]")
    event, data = found[-2]
    verdict = json.loads(data)
    assert event == "berth.verdict"
    assert verdict["request_id"] == answer.headers["x-request-id"]
    assert set(verdict) == {
        "request_id", "good", "compatible", "reason", "ttft_ms", "ttft_limit_ms", "tpot_ms", "fluidity", "tokens",
        "queue_ms", "prefill_ms", "decode_ms", "cached_tokens",
    }  # fmt: skip
    assert (verdict["good"], verdict["ttft_limit_ms"], verdict["queue_ms"]) == (True, 1000.0, 1.5)


async def test_the_official_client_streams_and_lists(running: Running) -> None:
    client = openai.AsyncOpenAI(base_url=f"{running.base}/v1", api_key=running.token, max_retries=0)
    messages: Any = [{"role": "user", "content": "hi"}]
    stream = await client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    text = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(text) == "one two three"
    whole = await client.chat.completions.create(model=MODEL, messages=messages)
    assert whole.choices[0].message.content == "one two three"
    assert [model.id for model in (await client.models.list()).data] == [MODEL]
    assert (await client.models.retrieve(MODEL)).owned_by == "you"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")


async def test_the_door_gets_what_it_needs_and_nothing_of_the_clients(running: Running, door: StubDoor) -> None:
    forged = {"x-berth-tenant": "ten_evil", "x-slo-ttft-ms": "1", "x-berth-weight": "99", "x-request-id": "mine"}
    body = chat(stream=False, top_p=0.5, made_up={"a": 1}, stop=["x"])
    async with running.post(body, headers=forged) as answer:
        assert answer.status == 200

    (call,) = door.calls
    assert call.headers["authorization"] == "Bearer token-1"
    assert call.headers["x-berth-tenant"] == TENANT
    assert call.headers["x-berth-weight"] == "1"
    assert call.headers["x-request-id"] == answer.headers["x-request-id"]
    assert 900 < float(call.headers["x-slo-ttft-ms"]) <= 1000
    assert call.headers["x-slo-tpot-ms"] == "100"
    assert call.body["stream"] is True
    assert call.body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (call.body["top_p"], call.body["stop"], call.body["messages"]) == (0.5, ["x"], body["messages"])
    assert "made_up" not in call.body
    assert running.gateway.ignored["made_up"] == 1


async def test_tools_and_structure_reach_the_door_as_they_came(running: Running, door: StubDoor) -> None:
    function = {"name": "f", "parameters": {"type": "object", "x-mine": [1]}, "strict": True}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "1"}]
    asked = {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "structured_outputs": {"choice": ["a"]},
    }
    body = chat(stream=False, **asked)
    body["messages"] += said
    async with running.post(body) as answer:
        assert answer.status == 200
    assert {name: door.calls[0].body[name] for name in asked} == asked
    assert door.calls[0].body["messages"][-2:] == said


async def test_names_a_client_invents_take_no_more_than_so_much_room(running: Running) -> None:
    body = chat(stream=False, **{f"made_up_{number}": 1 for number in range(1000)}, **{"x" * 5000: 1})
    async with running.post(body) as answer:
        assert answer.status == 200
    ignored = running.gateway.ignored
    assert sum(ignored.values()) == 1001
    assert len(ignored) <= 257
    assert max(len(name) for name in ignored) <= 64
    async with running.post(body):
        assert running.gateway.ignored["made_up_0"] == 2, "a name that has its place goes on being counted"


def test_a_million_fields_nobody_knows_cost_little() -> None:
    """They are read on the loop that carries everyone's streams."""
    known = b'{"model":"m","temperature":0.5,"messages":[{"role":"user","content":"x"}]'
    huge = known + b"".join(b',"f%d":1' % number for number in range(600_000)) + b"}"
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        request = parse_chat(huge)
    finally:
        sys.setprofile(None)
    assert calls < 1000, "no call of Python for each"
    assert request.unknown == ()
    sent = set(json.loads(request.for_door("default")))
    assert sent == {"model", "messages", "temperature", "stream", "stream_options"}


async def test_the_default_output_limit_is_echoed(running: Running) -> None:
    body = chat()
    del body["max_tokens"]
    async with running.post(body) as answer:
        assert answer.headers["x-berth-max-tokens"] == "512"


async def test_no_thread_and_no_query_on_the_way(
    running: Running, door: StubDoor, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hop(*args: object, **kwargs: object) -> None:
        raise AssertionError("a thread hop")

    def query(*args: object, **kwargs: object) -> None:
        raise AssertionError("a query")

    monkeypatch.setattr(SyncToAsync, "__call__", hop)
    monkeypatch.setattr(CursorWrapper, "execute", query)
    for stream in (True, False):
        async with running.post(chat(stream=stream)) as answer:
            assert answer.status == 200
            await answer.read()
    assert len(await records(store, 2)) == 2


async def test_a_client_that_leaves_cancels_at_once_and_pays_for_what_came(
    running: Running, door: StubDoor, store: Any
) -> None:
    door.behave = tokens(1000, 0.01)
    async with running.post() as answer:
        await answer.content.readuntil(b"t2 ")
        answer.close()
    (call,) = door.calls
    await asyncio.wait_for(call.left.wait(), PATIENCE_S)
    (record,) = await records(store)
    assert record["outcome"] == "client_left"
    assert 3 <= record["completion_tokens"] <= call.tokens < 1000
    assert record["offered"] is True
    assert record["good"] is True
    assert record["reached"] is True
    assert running.gateway.open == {}


async def test_a_client_that_leaves_before_its_deadline_was_not_offered(
    running: Running, door: StubDoor, store: Any
) -> None:
    async def silent(call: Call) -> None:
        await asyncio.sleep(60)

    door.behave = silent
    asking = asyncio.ensure_future(running.post())
    await asyncio.wait_for(door.called.wait(), PATIENCE_S)
    asking.cancel()
    await asyncio.wait_for(door.calls[0].left.wait(), PATIENCE_S)
    (record,) = await records(store)
    assert (record["outcome"], record.get("offered", False), record.get("good", False)) == ("client_left", False, False)


async def test_a_reader_that_does_not_read_is_let_go(
    running: Running, door: StubDoor, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 MB are more than the sockets hold and less than a gateway keeps. What is too long is said once all are there
    and the class promises whole minutes, so nothing here depends on how fast it runs.
    """
    count, flooded = 350, asyncio.Event()

    async def flood(call: Call) -> None:
        await call.start()
        for _ in range(count):
            await call.token("x" * 20_000)
        flooded.set()
        await call.left.wait()

    door.behave = flood
    patient = make_route(level=ServiceLevel(base_ms=120_000, tpot_ms=120_000))
    running.keeper.change(routes={(TENANT, MODEL): patient})
    host, _, port = running.base.removeprefix("http://").partition(":")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((host, int(port)))
    _, writer = await asyncio.open_connection(sock=sock, limit=1024)
    body = json.dumps(chat()).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {running.token}\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await asyncio.wait_for(flooded.wait(), 60)
    (exchange,) = running.gateway.open.values()
    for _ in range(6000):
        if exchange.line.tokens == count:
            break
        await asyncio.sleep(0.01)
    assert (exchange.line.tokens, exchange.judged) == (count, None)
    monkeypatch.setattr("berth.gateway.exchange.UNREAD_S", 0.0)
    (record,) = await records(store, patience_s=60)
    assert (record["outcome"], record["completion_tokens"]) == ("client_slow", count)
    assert record["good"] is True
    await asyncio.wait_for(door.calls[0].left.wait(), 60)
    writer.close()


async def test_back_pressure_never_counts(running: Running, door: StubDoor, store: Any) -> None:
    """Every token was ready in time; that the client read a second later changes nothing."""

    async def big(call: Call) -> None:
        await call.start()
        for _ in range(30):
            await call.token("y" * 100_000)
        await call.end()

    door.behave = big
    async with running.post(read_bufsize=1024) as answer:
        await asyncio.sleep(1.0)
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
    (record,) = await records(store)
    assert (record["outcome"], record["completion_tokens"], record["good"]) == ("completed", 30, True)


async def test_late_tokens_are_not_good(running: Running, door: StubDoor, store: Any) -> None:
    async def stalls(call: Call) -> None:
        await call.start()
        await call.token()
        await asyncio.sleep(0.45)
        await call.token()
        await call.end()

    door.behave = stalls
    async with running.post(headers={"x-berth-verdict": "1"}) as answer:
        verdict = json.loads(events(await answer.text())[-2][1])
    assert (verdict["good"], verdict["reason"], verdict["tokens"]) == (False, "decode", 2)
    assert verdict["fluidity"] == 0.0
    assert 440 < verdict["tpot_ms"] < 600


@pytest.mark.parametrize("stream", [True, False])
async def test_an_engine_that_fails_on_the_way(running: Running, door: StubDoor, store: Any, stream: bool) -> None:
    error = {"message": "The engine failed: boom", "type": "server_error", "param": None, "code": "engine_failed"}

    async def fails(call: Call) -> None:
        await call.start()
        await call.token()
        await call.chunk(b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        await call.write(b"0\r\n\r\n")

    door.behave = fails
    async with running.post(chat(stream=stream)) as answer:
        text = await answer.text()
    if stream:
        assert json.loads(events(text)[-1][1]) == {"error": error}
    else:
        assert (answer.status, json.loads(text)) == (500, {"error": error})
    (record,) = await records(store)
    assert (record["outcome"], record["reason"], record["completion_tokens"]) == ("truncated", "failed", 1)


async def test_another_tenants_model_and_one_that_is_not_there_read_the_same(running: Running) -> None:
    theirs, token = make_key(2, "ten_two")
    current = running.keeper.current
    foreign = make_route("theirs", "ten_two", "dep_two")
    running.keeper.change(
        keys={**current.keys, theirs.id: theirs}, routes={**current.routes, ("ten_two", "theirs"): foreign}
    )
    texts = []
    for name in ("theirs", "nowhere"):
        async with running.post(chat(model=name)) as answer:
            body = await answer.json()
            assert answer.status == 404
            assert body["error"]["code"] == "model_not_found"
            texts.append(body["error"]["message"].replace(name, "NAME"))
    assert texts[0] == texts[1]
    async with running.post(chat(model=MODEL), headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 404


async def test_windows_are_published_each_second(running: Running, store: Any, door: StubDoor) -> None:
    door.behave = good
    async with running.post() as answer:
        await answer.read()
    async with running.post(b"{") as answer:
        assert answer.status == 400
    cells: dict[str, Any] = {}
    for _ in range(150):
        for _, fields in await store.xrange(names.DELTAS_STREAM):
            assert fields["kind"] == "requests"
            cells |= {cell[1]: cell for cell in json.loads(fields["cells"])}
        if len(cells) == 2:
            break
        await asyncio.sleep(0.02)
    tenant, deployment, class_name, window = cells["dep_one"]
    assert (tenant, deployment, class_name) == (TENANT, "dep_one", "chat")
    assert (window["offered"], window["good"], window["good_tokens"], window["good_ideal_s"]) == (1, 1, 3, 0.25)
    assert cells[""][3] == {"invalid": 1}
    assert await store.get(names.gateway(running.gateway.id)) is not None
