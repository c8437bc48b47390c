"""``/v1/embeddings`` with the official client and against OpenAI's own schema."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch

from gpuruntime.goodput import Outcome
from gpuruntime.protocol import TENANT
from helpers.door import AUTH, TOKEN, OpenDoor, RuntimeProcess, ScriptedBackend, embedding_of, open_door, sse
from helpers.model import smollm2_dir
from helpers.openai_answers import check_answer
from helpers.patience import soon

__all__ = ["smollm2_dir"]


def client(door: OpenDoor) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=TOKEN, max_retries=0)


async def post(door: OpenDoor, **body: Any) -> tuple[int, Any]:
    headers = {**AUTH, TENANT: "ten_1"}
    async with door.http.post(f"{door.url}/v1/embeddings", json={"model": "m", **body}, headers=headers) as response:
        raw = await response.read()
        return response.status, sse(raw) if response.content_type == "text/event-stream" else json.loads(raw)


@pytest.mark.parametrize("given", ["hello", list(b"hello"), ["hello"], [list(b"hello")]])
@pytest.mark.parametrize("encoding", ["float", "base64", None])
async def test_an_input_may_be_text_or_ids(given: Any, encoding: Any) -> None:
    asked = {} if encoding is None else {"encoding_format": encoding}
    async with open_door(ScriptedBackend()) as door:
        answer = await client(door).embeddings.create(model="m", input=given, **asked)
        (ended,) = door.ended()
    (found,) = answer.data
    values = found.embedding
    if isinstance(values, str):  # the client decodes base64 only where nobody asked for it
        values = list(struct.unpack("<3f", base64.b64decode(values)))
    assert (found.index, found.object, values) == (0, "embedding", embedding_of(b"hello"))
    assert (answer.object, answer.model) == ("list", "m")
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (5, 5)
    assert (ended.outcome, ended.prompt_tokens, ended.completion_tokens) == ("completed", 5, 0)
    assert (ended.finish_reason, ended.cached_tokens, ended.ideal_s) == ("", 1, 0.5)


async def test_many_inputs_take_one_place_and_keep_their_order() -> None:
    texts = [f"{'x' * (at % 7)}{at}" for at in range(700)]
    backend = ScriptedBackend()
    async with open_door(backend, max_num_seqs=1, max_queue=1) as door:
        answer = await client(door).embeddings.create(model="m", input=texts, encoding_format="float")
        (ended,) = door.ended()
    assert [one.index for one in answer.data] == list(range(700))
    assert [one.embedding for one in answer.data] == [embedding_of(text.encode()) for text in texts]
    assert ended.prompt_tokens == answer.usage.prompt_tokens == sum(map(len, texts))
    assert (ended.ideal_s, ended.executed_ideal_s) == (0.5 * 700, 0.75 * 700)


async def test_the_answer_is_openais() -> None:
    async with open_door(ScriptedBackend()) as door:
        _, body = await post(door, input=["a", "b"])
    check_answer(body)


async def test_a_gateway_reads_events_with_the_counts_in_the_last() -> None:
    async with open_door(ScriptedBackend()) as door:
        _, (*shown, end, done) = await post(door, input=["ab", "c"], stream=True, encoding_format="base64")
    decoded = [list(struct.unpack("<3f", base64.b64decode(one["embedding"]))) for one in shown]
    assert decoded == [embedding_of(b"ab"), embedding_of(b"c")]
    assert [one["choices"] for one in shown] == [[], []]
    assert end["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 0,
        "total_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert end["berth"]["new_prompt_tokens"] == 3
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "input", "missing_required_parameter"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": []}, "input", "invalid_value"),
        ({"input": ["a", ""]}, "input", "invalid_value"),
        ({"input": [[1], "a"]}, "input", "invalid_type"),
        ({"input": [[1], []]}, "input", "invalid_value"),
        ({"input": 7}, "input", "invalid_type"),
        ({"input": [3000]}, "input", "invalid_value"),
        ({"input": [-1]}, "input", "invalid_value"),
        ({"input": ["a"] * 2049}, "input", "invalid_value"),
        ({"input": ["a", "x" * 1001]}, "input", "context_length_exceeded"),
        ({"input": "a", "dimensions": 2}, "dimensions", "unsupported_value"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format", "invalid_type"),
        ({"input": "a", "model": "other"}, "model", "model_not_found"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(body: Any, param: str, code: str) -> None:
    async with open_door(ScriptedBackend()) as door:
        status, answer = await post(door, **body)
        assert door.ended() == []
    assert (answer["error"]["param"], answer["error"]["code"]) == (param, code)
    assert status == (404 if code == "model_not_found" else 400)


async def test_an_engine_without_embeddings_says_so() -> None:
    async with open_door(ScriptedBackend(pooling=None)) as door:
        status, answer = await post(door, input="a")
    assert (status, answer["error"]["param"]) == (400, "model")
    assert "no embeddings on its engine (scripted)" in answer["error"]["message"]


async def test_one_input_that_fails_fails_the_request_and_ends_the_others() -> None:
    backend = ScriptedBackend(step_s=0.01)
    async with open_door(backend) as door:
        headers = {**AUTH, "x-request-id": "req_1"}
        backend.fail_only = "req_1-2"
        body = {"model": "m", "input": ["a", "b", "c", "d"] * 20}
        async with door.http.post(f"{door.url}/v1/embeddings", json=body, headers=headers) as response:
            assert response.status == 500
            assert (await response.json())["error"]["code"] == "engine_failed"
        (ended,) = door.ended()
        assert ended.outcome == Outcome.FAILED.value
        assert sorted(backend.closed) == sorted(backend.order)
        assert len(backend.order) < 80
        assert door.replica.admission.running == 0


async def test_a_client_that_leaves_ends_the_work() -> None:
    backend = ScriptedBackend(gate=asyncio.Event())
    async with open_door(backend) as door:
        asking = asyncio.create_task(client(door).embeddings.create(model="m", input=["a"] * 30))
        await soon(lambda: len(backend.order) > 0)
        asking.cancel()
        await soon(lambda: len(door.replica.spool))
        (ended,) = door.ended()
        assert ended.outcome == Outcome.CLIENT_LEFT.value
        assert sorted(backend.closed) == sorted(backend.order)
        assert door.replica.admission.running == 0
        assert not door.replica.active


async def test_a_full_door_refuses_at_once() -> None:
    backend = ScriptedBackend(gate=asyncio.Event())
    async with open_door(backend, max_num_seqs=1, max_queue=0) as door:
        asking = asyncio.create_task(client(door).embeddings.create(model="m", input="a"))
        await soon(lambda: len(backend.order) > 0)
        status, answer = await post(door, input="b")
        assert (status, answer["error"]["code"]) == (503, "queue_full")
        assert backend.gate is not None
        backend.gate.set()
        assert len((await asking).data) == 1


def test_the_real_model_and_transformers_agree(smollm2_dir: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    texts = ["The capital of France is Paris.", "Paris is France's capital.", "def add(a, b): return a + b"]
    process = RuntimeProcess(tmp_path, smollm2_dir, engine={"kv_bytes": 96 << 20})
    try:
        process.wait_for("ready", "failed")
        asked = openai.OpenAI(base_url=f"{process.url}/v1", api_key=TOKEN, max_retries=0)
        found = np.array([one.embedding for one in asked.embeddings.create(model="m", input=texts).data])
    finally:
        process.end()
    model = AutoModelForCausalLM.from_pretrained(smollm2_dir, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir)
    for text, embedding in zip(texts, found, strict=True):
        with torch.inference_mode():
            state = model.model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, -1].double().numpy()
        assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-5)
        assert float(embedding @ state / np.linalg.norm(state)) > 0.999
