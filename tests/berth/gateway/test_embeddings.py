"""``/v1/embeddings`` through the gateway, in front of a real door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import openai
import pytest

from gpuruntime.door.errors import ApiError
from helpers.door import AUTH, TOKEN, OpenDoor, ScriptedBackend, embedding_of, open_door
from helpers.gateway import DEPLOYMENT, Running, make_key, make_replica, make_snapshot, record_of, running_gateway
from helpers.patience import soon


@pytest.fixture
async def opened() -> AsyncIterator[OpenDoor]:
    async with open_door(ScriptedBackend()) as door:
        yield door


async def post(fronted: Running, **body: Any) -> tuple[int, Any]:
    asked = {"model": "m", **body}
    async with fronted.http.post(f"{fronted.base}/v1/embeddings", json=asked, headers=fronted.headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_an_answer_is_the_doors_own(fronted: Running, opened: OpenDoor, store: Any, encoding: str) -> None:
    body = {"model": "m", "input": ["hello", "you"], "encoding_format": encoding}
    status, answer = await post(fronted, **body)
    async with opened.http.post(f"{opened.url}/v1/embeddings", json=body, headers=AUTH) as response:
        own = await response.json()
    assert (status, answer) == (200, own)
    assert len(answer["data"]) == 2
    record = await record_of(store)
    assert (record["outcome"], record["good"], record["offered"]) == ("completed", True, True)
    assert (record["prompt_tokens"], record.get("completion_tokens", 0)) == (8, 0)
    assert (record.get("finish_reason", ""), record["cached_tokens"], record["new_prompt_tokens"]) == ("", 2, 8)
    assert record["ideal_s"] == 1.0


async def test_the_official_client_reads_them(fronted: Running) -> None:
    client = openai.AsyncOpenAI(base_url=f"{fronted.base}/v1", api_key=fronted.token, max_retries=0)
    texts = [f"text {'y' * (at % 5)}" for at in range(300)]
    answer = await client.embeddings.create(model="m", input=texts)
    assert [one.embedding for one in answer.data] == [embedding_of(text.encode()) for text in texts]
    assert answer.usage.prompt_tokens == sum(map(len, texts))


async def test_a_client_that_asks_is_told_its_verdict(fronted: Running) -> None:
    headers = fronted.headers | {"x-berth-verdict": "1"}
    asked = {"model": "m", "input": "a"}
    async with fronted.http.post(f"{fronted.base}/v1/embeddings", json=asked, headers=headers) as answer:
        berth = (await answer.json())["berth"]
    assert (berth["good"], berth["tokens"], berth["cached_tokens"]) == (True, 0, 1)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "a", "stream": True}, "stream"),
        ({"input": "a", "dimensions": 8}, "dimensions"),
        ({"input": []}, "input"),
        ({"input": "x" * 1001}, "input"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(fronted: Running, body: Any, param: str) -> None:
    status, answer = await post(fronted, **body)
    assert (status, answer["error"]["param"], answer["error"]["type"]) == (400, param, "invalid_request_error")


async def test_a_door_that_dies_is_followed_by_another(opened: OpenDoor, store: Any, redis_url: str) -> None:
    key, token = make_key()
    backend = ScriptedBackend(gate=asyncio.Event())
    async with open_door(backend) as other:
        replicas = tuple(
            replace(make_replica(url, number), token=TOKEN) for number, url in enumerate((other.url, opened.url), 1)
        )
        snapshot = replace(make_snapshot([], key, model="m"), replicas={DEPLOYMENT: replicas})
        async with running_gateway(snapshot, token, redis_url) as fronted:
            asking = [asyncio.create_task(post(fronted, input=f"text {at}")) for at in range(8)]
            await soon(lambda: backend.order)
            while not all(task.done() for task in asking):
                for run in list(other.replica.active):
                    run.fail(ApiError(503, "The replica stops.", code="replica_stopped", retry_after_s=1))
                await asyncio.sleep(0.01)
            answers = await asyncio.gather(*asking)
    assert [answer["data"][0]["embedding"] for _, answer in answers] == [
        embedding_of(f"text {at}".encode()) for at in range(8)
    ]
