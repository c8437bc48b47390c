"""Several choices of one request: one stream, one bill, one fate."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from gpuruntime.backend import EngineFull
from gpuruntime.door.errors import ApiError
from helpers.door import TOKEN, OpenDoor, ScriptedBackend, open_door, sse
from helpers.patience import PATIENCE_S, soon

USAGE = {"include_usage": True, "continuous_usage_stats": True}
NAMED = {"x-request-id": "req_n"}


def client(door: OpenDoor) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=TOKEN, max_retries=0)


@pytest.mark.parametrize("stream", [True, False])
async def test_each_choice_is_whole_and_the_prompt_counts_once(stream: bool) -> None:
    backend = ScriptedBackend(step_s=0.002)
    async with open_door(backend) as door:
        asked = door.chat("hello", n=3, max_tokens=4, stream=stream, stream_options=USAGE, headers=NAMED)
        async with asked as response:
            raw = await response.read()
        (ended,) = door.ended()
    if stream:
        frames = sse(raw)[:-1]
        texts = {0: "", 1: "", 2: ""}
        for frame in frames[:-1]:
            texts[frame["choices"][0]["index"]] += frame["choices"][0]["delta"].get("content") or ""
        roles = [f["choices"][0]["index"] for f in frames[:-1] if "role" in f["choices"][0]["delta"]]
        finishes = [f["choices"][0]["index"] for f in frames[:-1] if f["choices"][0]["finish_reason"] == "length"]
        assert (sorted(roles), sorted(finishes)) == ([0, 1, 2], [0, 1, 2])
        counts = [frame["usage"]["completion_tokens"] for frame in frames]
        assert counts == sorted(counts)
        usage, berth = frames[-1]["usage"], frames[-1]["berth"]
    else:
        answer = json.loads(raw)
        texts = {choice["index"]: choice["message"]["content"] for choice in answer["choices"]}
        usage, berth = answer["usage"], answer["berth"]
    assert texts == dict.fromkeys(range(3), "w0 w1 w2 w3 ")
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 12, 17)
    assert (berth["new_prompt_tokens"], berth["ideal_s"], berth["executed_ideal_s"]) == (5, 1.5, 2.25)
    assert (ended.outcome, ended.prompt_tokens, ended.completion_tokens) == ("completed", 5, 12)
    assert sum(backend.generated.values()) == 12
    assert backend.order == ["req_n", "req_n-1", "req_n-2"]


async def test_the_seeds_are_the_clients_plus_the_number() -> None:
    backend = ScriptedBackend()
    async with open_door(backend) as door:
        for seed in (7, (1 << 63) - 1, None):
            async with door.chat(n=3, seed=seed, max_tokens=1) as response:
                assert response.status == 200
    seeds = [params.seed for params in backend.params]
    assert seeds[:3] == [7, 8, 9]
    assert seeds[3:6] == [(1 << 63) - 1, -(1 << 63), -(1 << 63) + 1]
    assert len(set(seeds[6:])) == 3
    assert None not in seeds


async def test_the_others_start_with_the_first_ones_token() -> None:
    gate = asyncio.Event()
    backend = ScriptedBackend(gate=gate)
    async with open_door(backend) as door:
        asked = asyncio.create_task(door.chat(n=4, max_tokens=2).__aenter__())
        await soon(lambda: door.replica.admission.running == 4)
        await asyncio.sleep(0.02)
        assert len(backend.order) == 1
        gate.set()
        (await asked).release()
    assert len(backend.order) == 4


async def test_more_choices_than_seats_take_turns() -> None:
    backend = ScriptedBackend(step_s=0.002)
    async with open_door(backend, max_num_seqs=2) as door:
        async with door.chat(n=5, max_tokens=3) as response:
            answer = await response.json()
        assert door.replica.admission.running == 0
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["w0 w1 w2 "] * 5


async def test_a_deadline_that_grows_with_the_prompt_keeps_the_first_choice_first() -> None:
    slo = {"x-slo-ttft-ms": "50", "x-slo-prefill-rate": "10", "x-slo-tpot-ms": "60"}
    gate = asyncio.Event()
    backend = ScriptedBackend(gate=gate)
    async with open_door(backend, max_num_seqs=1) as door:
        blocking = asyncio.create_task(door.chat(max_tokens=1).__aenter__())
        await soon(lambda: door.replica.admission.running == 1)
        asked = asyncio.create_task(door.chat("x" * 100, n=4, max_tokens=2, headers=slo).__aenter__())
        await soon(lambda: door.replica.admission.queued == 4)
        gate.set()
        async with asyncio.timeout(PATIENCE_S):
            response = await asked
            assert response.status == 200
            (await blocking).release()


async def test_all_choices_are_let_in_or_none() -> None:
    gate = asyncio.Event()
    async with open_door(ScriptedBackend(gate=gate), max_num_seqs=2, max_queue=3) as door:
        async with door.chat(n=6, max_tokens=1) as response:
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, "n")
            assert "5" in error["message"]
        first = asyncio.create_task(door.chat(n=3, max_tokens=1).__aenter__())
        await soon(lambda: (door.replica.admission.running, door.replica.admission.queued) == (2, 1))
        async with door.chat(n=3, max_tokens=1) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (503, "queue_full")
            assert "3 places" in error["message"]
        assert (door.replica.admission.running, door.replica.admission.queued) == (2, 1)
        gate.set()
        (await first).release()
        await soon(lambda: door.replica.admission.running == 0)
        assert [ended.outcome for ended in door.ended()] == ["completed"]


@pytest.mark.parametrize("failing", ["req_n", "req_n-2"])
async def test_one_choice_that_fails_fails_the_request_and_ends_the_others(failing: str) -> None:
    backend = ScriptedBackend(step_s=0.01, fail_after=2, fail_only=failing)
    async with open_door(backend) as door:
        async with door.chat(n=3, max_tokens=500, stream=True, headers=NAMED) as response:
            frames = sse(await response.read())
        assert frames[-1]["error"]["code"] == "engine_failed"
        await soon(lambda: not door.replica.active)
        (ended,) = door.ended()
        assert ended.outcome == "truncated"
        assert ended.completion_tokens == sum(backend.generated.values())
        assert sorted(backend.closed) == sorted(backend.order)
        assert door.replica.admission.running == 0


async def test_the_others_never_begin_when_the_first_fails() -> None:
    backend = ScriptedBackend(fail_after=0)
    async with open_door(backend) as door:
        async with door.chat(n=3, max_tokens=5) as response:
            assert response.status == 500
        await soon(lambda: not door.replica.active)
        assert (len(backend.order), door.replica.admission.running) == (1, 0)
        assert [ended.outcome for ended in door.ended()] == ["failed"]


async def test_what_a_full_engine_refuses_is_not_counted_here() -> None:
    class Full(ScriptedBackend):
        def generate(self, *_: Any) -> Any:
            raise EngineFull("9 requests are in the engine")

    async with open_door(Full()) as door:
        async with door.chat(n=2) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], response.headers["retry-after"]) == (503, "queue_full", "1")
        await soon(lambda: not door.replica.active)
        assert (door.ended(), door.replica.admission.running) == ([], 0)


async def test_a_client_that_leaves_ends_every_choice_and_pays_for_all_of_them() -> None:
    backend = ScriptedBackend(step_s=0.01)
    async with open_door(backend) as door:
        async with door.chat(n=3, max_tokens=500, stream=True, headers=NAMED) as response:
            await soon(lambda: len(backend.generated) == 3)
            await response.content.readany()
        await soon(lambda: len(door.replica.spool) == 1 and not door.replica.active)
        (ended,) = door.ended()
        assert (ended.outcome, ended.completion_tokens) == ("client_left", sum(backend.generated.values()))
        assert ended.executed_ideal_s == 3 * 0.75
        assert (len(backend.closed), door.replica.admission.running) == (3, 0)


async def test_a_client_that_leaves_while_some_wait_gives_all_places_back() -> None:
    gate = asyncio.Event()
    backend = ScriptedBackend(gate=gate)
    async with open_door(backend, max_num_seqs=2) as door:
        asked = asyncio.create_task(door.chat(n=4, max_tokens=1).__aenter__())
        await soon(lambda: door.replica.admission.queued == 2)
        asked.cancel()
        await soon(lambda: door.replica.admission.queued == 0)
        gate.set()
        await soon(lambda: not door.replica.active)
        assert door.replica.admission.running == 0
        assert len(backend.order) == 1


async def test_a_drain_that_is_over_ends_every_choice() -> None:
    async with open_door(ScriptedBackend(step_s=0.01)) as door:
        asked = asyncio.create_task(door.chat(n=2, max_tokens=500).__aenter__())
        await soon(lambda: any(one.account.completion_tokens for one in door.replica.active))
        for one in door.replica.active:
            one.fail(ApiError(503, "The replica stops.", code="replica_stopped"))
        response = await asked
        assert (response.status, (await response.json())["error"]["code"]) == (503, "replica_stopped")
        await soon(lambda: door.replica.admission.running == 0)


async def test_log_probabilities_in_the_official_clients_types() -> None:
    async with open_door(ScriptedBackend()) as door:
        whole = await client(door).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], n=2, max_tokens=3, logprobs=True, top_logprobs=2
        )
        streamed: dict[int, list[Any]] = {0: [], 1: []}
        async for chunk in await client(door).chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            n=2,
            max_tokens=3,
            logprobs=True,
            top_logprobs=2,
            stream=True,
        ):
            for choice in chunk.choices:
                if choice.logprobs is not None:
                    streamed[choice.index] += choice.logprobs.content or []
    for choice in whole.choices:
        assert choice.logprobs is not None
        content = choice.logprobs.content or []
        assert [(one.token, one.logprob) for one in content] == [("w0 ", 0.0), ("w1 ", -0.125), ("w2 ", -0.25)]
        assert [bytes(one.bytes or []).decode() for one in content] == ["w0 ", "w1 ", "w2 "]
        assert [(top.token, top.logprob) for top in content[1].top_logprobs] == [("w1 ", -0.125), ("w2 ", -0.625)]
        assert [one.model_dump() for one in streamed[choice.index]] == [one.model_dump() for one in content]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompts_log_probabilities_come_once(stream: bool) -> None:
    async with (
        open_door(ScriptedBackend()) as door,
        door.chat("abc", n=2, max_tokens=1, prompt_logprobs=1, stream=stream) as response,
    ):
        raw = await response.read()
    if stream:
        found = [frame["prompt_logprobs"] for frame in sse(raw)[:-1] if "prompt_logprobs" in frame]
        shown = [entry for part in found for entry in part]
    else:
        shown = json.loads(raw)["prompt_logprobs"]
    assert shown == [
        None,
        {"98": {"logprob": -0.25, "rank": 1, "decoded_token": "b"}},
        {"99": {"logprob": -0.5, "rank": 1, "decoded_token": "c"}},
    ]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logit_bias": {"3000": 1}}, "logit_bias"),
        ({"stop_token_ids": [5, 3000]}, "stop_token_ids"),
        ({"min_tokens": 700}, "min_tokens"),
        ({"min_p": 0.5}, "min_p"),
        ({"logprobs": True}, "logprobs"),
        ({"prompt_logprobs": 0}, "prompt_logprobs"),
    ],
)
async def test_what_only_the_replica_knows_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    backend = ScriptedBackend(refuses=("min_p", "logprobs", "prompt_logprobs", "top_k"))
    async with open_door(backend) as door:
        async with door.chat(**fields) as response:
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, param)
            assert param in error["message"]
        async with door.chat(min_p=0, top_k=-1, logprobs=False, max_tokens=1) as response:
            assert response.status == 200
        assert len(door.ended()) == 1


async def test_every_field_reaches_the_engine() -> None:
    backend = ScriptedBackend()
    given: dict[str, Any] = {
        "temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "presence_penalty": 0.5,
        "frequency_penalty": -0.5, "repetition_penalty": 1.25, "min_tokens": 2, "ignore_eos": True, "seed": 3,
        "max_tokens": 4, "prompt_logprobs": 1,
    }  # fmt: skip
    lists: dict[str, Any] = {"logit_bias": {"5": -2, "7": 1.5}, "stop": ["x", "y"], "stop_token_ids": [9, 8]}
    async with open_door(backend) as door, door.chat(**given, **lists, logprobs=True, top_logprobs=3) as response:
        assert response.status == 200
    (params,) = backend.params
    assert {name: getattr(params, name) for name in given} == given
    assert (params.logit_bias, params.stop, params.stop_token_ids) == (((5, -2.0), (7, 1.5)), ("x", "y"), (9, 8))
    assert params.logprobs == 3
