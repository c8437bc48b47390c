"""The endpoint over a real socket: frames, errors, limits, counting, and a client that leaves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gpuruntime.door import run
from gpuruntime.door.errors import ApiError
from gpuruntime.protocol import Load
from helpers.door import AUTH, ScriptedBackend, open_door, sse
from helpers.patience import soon

USAGE = {"include_usage": True, "continuous_usage_stats": True}


async def test_a_stream_is_openais_frames_with_the_running_usage_and_the_berth_object() -> None:
    body = {"max_tokens": 3, "stream": True, "stream_options": USAGE}
    async with open_door(ScriptedBackend()) as door, door.chat("hello", **body) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        frames = sse(await response.read())
    role, *texts, finish, usage, done = frames
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [frame["choices"][0]["delta"]["content"] for frame in texts] == ["w0 ", "w1 ", "w2 "]
    assert [frame["usage"]["completion_tokens"] for frame in texts] == [1, 2, 3]
    assert finish["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    assert usage["choices"] == []
    assert (usage["usage"]["prompt_tokens"], usage["usage"]["total_tokens"]) == (5, 8)
    assert usage["berth"] == {
        "queue_ms": pytest.approx(1.0, abs=50),
        "prefill_ms": 2.0,
        "decode_ms": 3.0,
        "preemptions": 0,
        "cached_tokens": 0,
        "new_prompt_tokens": 5,
        "ideal_s": 0.5,
        "executed_ideal_s": 0.75,
    }
    assert done == "[DONE]"
    assert len({(frame["id"], frame["created"], frame["object"]) for frame in frames[:-1]}) == 1


async def test_without_stream_options_there_is_no_usage() -> None:
    async with open_door(ScriptedBackend()) as door, door.chat(max_tokens=2, stream=True) as response:
        frames = sse(await response.read())
    assert frames[-1] == "[DONE]"
    assert not any("usage" in frame or "berth" in frame for frame in frames[:-1])


async def test_a_request_without_stream_gets_one_object() -> None:
    async with open_door(ScriptedBackend()) as door, door.chat("hello", max_tokens=3) as response:
        answer = await response.json()
    assert answer["choices"][0]["message"]["content"] == "w0 w1 w2 "
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3


async def test_text_with_quotes_and_newlines_survives_the_templates() -> None:
    class Awkward(ScriptedBackend):
        async def generate(self, *args: Any) -> Any:
            async for delta in super().generate(*args):
                yield type(delta)('"\\\n\u2028\0é😀', *[getattr(delta, f) for f in delta.__slots__[1:]])

    async with open_door(Awkward()) as door, door.chat(max_tokens=1, stream=True) as response:
        assert sse(await response.read())[1]["choices"][0]["delta"]["content"] == '"\\\n\u2028\0é😀'


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic door-token"}])
@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/chat/completions", "/nowhere"])
async def test_nothing_but_health_answers_without_the_token(header: dict[str, str], path: str) -> None:
    async with open_door(ScriptedBackend()) as door:
        async with door.http.get(door.url + path, headers=header) as response:
            assert response.status == 401
            assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
        async with door.http.get(door.url + "/health", headers=header) as response:
            assert (response.status, (await response.json())["state"]) == (200, "ready")


async def test_every_response_says_how_loaded_the_door_is() -> None:
    gate = asyncio.Event()
    async with open_door(ScriptedBackend(gate=gate), max_num_seqs=1) as door:
        running = [asyncio.create_task(door.chat(max_tokens=1).__aenter__()) for _ in range(3)]
        await soon(lambda: door.replica.admission.queued == 2)
        for path in ("/health", "/v1/models", "/nowhere", "/metrics"):
            async with door.http.get(door.url + path, headers=AUTH) as response:
                load = Load.parse(response.headers["x-berth-load"])
                assert load is not None
                assert (load.running, load.queued, load.capacity) == (1, 2, 1)
        gate.set()
        for response in await asyncio.gather(*running):
            assert response.status == 200
            response.release()


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_wrong_path_or_method_gets_openais_error_object(method: str) -> None:
    path = "/v1/chat/completions"
    async with (
        open_door(ScriptedBackend()) as door,
        door.http.request(method, door.url + path, headers=AUTH) as response,
    ):
        assert (response.status, (await response.json())["error"]["code"]) == (405, "method_not_allowed")


async def test_loading_refuses_with_a_reason_and_retry_after() -> None:
    async with open_door(ScriptedBackend(), ready=False) as door:
        async with door.chat() as response:
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert (await response.json())["error"]["code"] == "replica_loading"
        async with door.http.get(door.url + "/health") as response:
            assert (response.status, (await response.json())["state"]) == (503, "loading")
        assert door.ended() == []


@pytest.mark.parametrize(
    ("content", "fields", "status", "param"),
    [
        ("x" * 1000, {}, 400, "messages"),
        ("x" * 990, {"max_tokens": 11}, 400, "max_tokens"),
        ("unrenderable", {}, 400, "messages"),
        ("x", {"model": "other"}, 404, "model"),
    ],
)
async def test_what_cannot_be_served_is_refused_before_it_is_admitted(
    content: str, fields: dict[str, Any], status: int, param: str
) -> None:
    async with open_door(ScriptedBackend()) as door:
        async with door.chat(content, **fields) as response:
            assert (response.status, (await response.json())["error"]["param"]) == (status, param)
        assert door.ended() == []


async def test_an_enormous_body_is_refused_without_being_read_whole() -> None:
    async with open_door(ScriptedBackend()) as door, door.chat("x" * (9 << 20)) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (413, "body_too_large")


async def test_a_context_overflow_names_all_numbers() -> None:
    async with open_door(ScriptedBackend()) as door, door.chat("x" * 990, max_tokens=11) as response:
        message = (await response.json())["error"]["message"]
    assert all(number in message for number in ("1000", "990", "11"))


async def test_the_deployments_limit_applies_within_the_context_when_none_was_sent() -> None:
    backend = ScriptedBackend()
    async with open_door(backend, default_max_tokens=20) as door:
        for size in (5, 990):
            async with door.chat("x" * size) as response:
                await response.read()
    assert [params.max_tokens for params in backend.params] == [20, 10]


async def test_a_failure_before_the_first_token_is_a_status_and_after_it_a_frame() -> None:
    for fail_after, status, outcome in ((0, 500, "failed"), (2, 200, "truncated")):
        async with open_door(ScriptedBackend(fail_after=fail_after, step_s=0.01)) as door:
            async with door.chat(max_tokens=5, stream=True) as response:
                assert response.status == status
                raw = await response.read()
            error = json.loads(raw)["error"] if status == 500 else sse(raw)[-1]["error"]
            assert (error["code"], set(error)) == ("engine_failed", {"message", "type", "param", "code"})
            (ended,) = door.ended()
            assert (ended.outcome, ended.completion_tokens) == (outcome, fail_after)


async def test_a_client_that_leaves_stops_the_generation_within_a_step() -> None:
    backend = ScriptedBackend(step_s=0.05)
    async with open_door(backend) as door:
        async with door.chat(max_tokens=500, stream=True, headers={"x-request-id": "req_gone"}) as response:
            await response.content.readany()
            response.close()
        seen = backend.generated["req_gone"]
        await soon(lambda: backend.closed == ["req_gone"])
        assert backend.generated["req_gone"] <= seen + 2
        await soon(lambda: len(door.replica.spool) == 1)
        (ended,) = door.ended()
        assert (ended.outcome, ended.completion_tokens) == ("client_left", backend.generated["req_gone"])
        assert door.replica.admission.running == 0


async def test_what_a_client_that_left_had_cost_is_counted_once() -> None:
    async with open_door(ScriptedBackend(step_s=0.02)) as door:
        async with door.chat(max_tokens=500, stream=True, headers={"x-berth-tenant": "ten_a"}) as response:
            await response.content.readany()
        await soon(lambda: len(door.replica.spool) == 1)
        await soon(lambda: not door.replica.active)
        (ended,) = door.ended()
        assert (ended.outcome, ended.finish_reason, ended.prefill_ms, ended.decode_ms) == ("client_left", "abort", 2, 3)
        assert (ended.queue_ms or 0) >= 1.0
        assert (ended.ideal_s, ended.executed_ideal_s) == (0.5, 0.75)
        assert door.replica.counter.work.ideal_s_by_tenant == {"ten_a": 0.75}


async def test_an_engine_that_does_not_answer_an_abort_holds_up_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ABORT_S", 0.1)
    backend = ScriptedBackend(step_s=0.02, deaf=True)
    async with open_door(backend) as door:
        async with door.chat(max_tokens=500, stream=True) as response:
            await response.content.readany()
        await soon(lambda: len(door.replica.spool) == 1)
        await soon(lambda: not door.replica.active)
        (ended,) = door.ended()
        assert (ended.outcome, ended.executed_ideal_s, ended.prefill_ms) == ("client_left", None, None)
        assert ended.completion_tokens == max(backend.generated.values())
        assert (len(backend.closed), door.replica.admission.running) == (1, 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_the_drain_cut_short_is_counted_with_its_timings(stream: bool) -> None:
    async with open_door(ScriptedBackend(step_s=0.02)) as door:
        asked = asyncio.create_task(door.chat(max_tokens=500, stream=stream).__aenter__())
        await soon(lambda: any(one.account.completion_tokens for one in door.replica.active))
        for one in door.replica.active:
            one.fail(ApiError(503, "The replica stops.", code="replica_stopped"))
        response = await asked
        raw = await response.read()
        error = sse(raw)[-1]["error"] if stream else json.loads(raw)["error"]
        assert (response.status, error["code"]) == (200 if stream else 503, "replica_stopped")
        (ended,) = door.ended()
        assert (ended.outcome, ended.executed_ideal_s) == ("truncated", 0.75)


async def test_a_client_that_leaves_the_queue_gives_its_place_up() -> None:
    gate = asyncio.Event()
    backend = ScriptedBackend(gate=gate)
    async with open_door(backend, max_num_seqs=1) as door:
        first = asyncio.create_task(door.chat(max_tokens=1).__aenter__())
        await soon(lambda: door.replica.admission.running == 1)
        second = asyncio.create_task(door.chat(max_tokens=1).__aenter__())
        await soon(lambda: door.replica.admission.queued == 1)
        second.cancel()
        await soon(lambda: door.replica.admission.queued == 0)
        gate.set()
        (await first).release()
        await soon(lambda: len(door.replica.spool) == 2)
        assert sorted(ended.outcome for ended in door.ended()) == ["client_left", "completed"]
        assert len(backend.order) == 1


async def test_urgent_requests_overtake_those_of_every_tenant() -> None:
    gate = asyncio.Event()
    backend = ScriptedBackend(gate=gate)
    async with open_door(backend, max_num_seqs=1) as door:
        waiting = []

        async def send(name: str, tenant: str, **headers: str) -> None:
            given = {
                "x-request-id": name,
                "x-berth-tenant": tenant,
                **{k.replace("_", "-"): v for k, v in headers.items()},
            }
            count = len(door.replica.active)
            waiting.append(asyncio.create_task(door.chat(max_tokens=1, headers=given).__aenter__()))
            await soon(lambda: len(door.replica.active) == count + 1)

        await send("first", "a")
        await send("a-none", "a", x_slo_tpot_ms="60000")
        await send("a-loose", "a", x_slo_ttft_ms="60000")
        await send("a-tight", "a", x_slo_ttft_ms="30000")
        await send("b", "b", x_slo_ttft_ms="45000")
        gate.set()
        for response in await asyncio.gather(*waiting):
            response.release()
    assert backend.order == ["first", "a-tight", "b", "a-loose", "a-none"]


async def test_a_full_queue_answers_503_and_counts_nothing() -> None:
    gate = asyncio.Event()
    async with open_door(ScriptedBackend(gate=gate), max_num_seqs=1, max_queue=1) as door:
        kept = [asyncio.create_task(door.chat(max_tokens=1).__aenter__()) for _ in range(2)]
        await soon(lambda: door.replica.admission.queued == 1)
        async with door.chat(max_tokens=1) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (503, "queue_full")
            assert int(response.headers["retry-after"]) >= 1
        gate.set()
        for response in await asyncio.gather(*kept):
            response.release()
        await soon(lambda: len(door.replica.spool) == 2)
        found = [(ended.outcome, ended.running_at_arrival, ended.queued_at_arrival) for ended in door.ended()]
        assert found == [("completed", 0, 0), ("completed", 1, 0)]


async def test_a_queue_timeout_is_counted() -> None:
    gate = asyncio.Event()
    async with open_door(ScriptedBackend(gate=gate), max_num_seqs=1, queue_timeout_s=0.05) as door:
        first = asyncio.create_task(door.chat(max_tokens=1).__aenter__())
        await soon(lambda: door.replica.admission.running == 1)
        async with door.chat(max_tokens=1) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (503, "queue_timeout")
        gate.set()
        (await first).release()
        await soon(lambda: len(door.replica.spool) == 2)
        assert sorted(ended.outcome for ended in door.ended()) == ["completed", "queue_timeout"]


async def test_blocks_seen_before_are_not_new_unless_the_salt_differs() -> None:
    async with open_door(ScriptedBackend()) as door:
        new = []
        for salt in ("s1", "s1", "s2"):
            async with door.chat("x" * 40, max_tokens=1, headers={"x-berth-salt": salt}) as response:
                new.append((await response.json())["berth"]["new_prompt_tokens"])
    assert new == [40, 8, 40]


async def test_metrics_speak_vllms_names() -> None:
    async with open_door(ScriptedBackend()) as door:
        async with door.chat(max_tokens=4) as response:
            await response.read()
        async with door.http.get(door.url + "/metrics", headers=AUTH) as response:
            text = await response.text()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines['vllm:generation_tokens_total{model_name="m"}']) == 4
    assert float(lines['vllm:request_success_total{finished_reason="length",model_name="m"}']) == 1
    assert float(lines['vllm:time_to_first_token_seconds_count{model_name="m"}']) == 1
    assert float(lines['vllm:num_requests_running{model_name="m"}']) == 0
    assert float(lines['vllm:inter_token_latency_seconds_count{model_name="m"}']) == 3
    assert float(lines['vllm:inter_token_latency_seconds_bucket{le="+Inf",model_name="m"}']) == 3
    assert {name.partition("{")[0] for name in lines} >= {
        "vllm:num_requests_waiting", "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total",
        "vllm:prompt_tokens_total", "vllm:num_preemptions_total", "vllm:e2e_request_latency_seconds_sum",
        "vllm:request_queue_time_seconds_sum", "vllm:request_time_per_output_token_seconds_sum",
    }  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
async def test_who_would_be_late_is_refused_or_degraded_as_its_contract_says(stream: bool) -> None:
    async with open_door(ScriptedBackend()) as door:
        for tokens in (0, 1000):
            door.replica.admission.throughput.record_prefill(9.0, tokens)
        promised = {"x-slo-ttft-ms": "1000", "x-slo-tpot-ms": "100"}
        async with door.chat(stream=stream, headers=promised | {"x-berth-when-late": "refuse"}) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (429, "predicted_late")
            assert response.headers["x-should-retry"] == "true"
        async with door.chat(stream=stream, headers=promised | {"x-berth-when-late": "degrade"}) as response:
            assert (response.status, response.headers["x-berth-degraded"]) == (200, "ttft")
        async with door.chat(stream=stream, headers=promised) as response:
            assert response.status == 200
            assert "x-berth-degraded" not in response.headers
        await soon(lambda: len(door.replica.spool) == 2)
        assert [ended.degraded for ended in door.ended()] == [True, False]
