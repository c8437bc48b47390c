"""Several choices and text completions through the gateway, in front of a real door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from berth.gateway.asked import parse_chat, parse_completion
from berth.gateway.frames import StreamFilter
from helpers.door import AUTH, OpenDoor, ScriptedBackend, open_door
from helpers.gateway import Running, events, record_of
from helpers.patience import PATIENCE_S

USAGE = {"include_usage": True, "continuous_usage_stats": True}
TEXT = {"model": "m", "prompt": "hello", "max_tokens": 3}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


@pytest.fixture
async def backend() -> ScriptedBackend:
    return ScriptedBackend(step_s=0.002)


@pytest.fixture
async def opened(backend: ScriptedBackend) -> AsyncIterator[OpenDoor]:
    async with open_door(backend) as door:
        yield door


async def ask(fronted: Running, path: str, body: dict[str, Any]) -> Any:
    async with fronted.http.post(f"{fronted.base}/v1/{path}", json=body, headers=fronted.headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


@pytest.mark.parametrize("stream", [True, False])
async def test_choices_are_told_apart_and_billed_together(
    fronted: Running, opened: OpenDoor, store: Any, stream: bool
) -> None:
    raw = await ask(fronted, "chat/completions", CHAT | {"n": 3, "stream": stream, "stream_options": USAGE})
    texts = {0: "", 1: "", 2: ""}
    if stream:
        frames = [json.loads(data) for _, data in events(raw.decode())[:-1]]
        for frame in frames[:-1]:
            texts[frame["choices"][0]["index"]] += frame["choices"][0]["delta"].get("content") or ""
        usage = frames[-1]["usage"]
    else:
        answer = json.loads(raw)
        texts = {choice["index"]: choice["message"]["content"] for choice in answer["choices"]}
        usage = answer["usage"]
    assert texts == dict.fromkeys(range(3), "w0 w1 w2 ")
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, 9)
    record = await record_of(store)
    (ended,) = opened.ended()
    assert (record["outcome"], record["good"]) == ("completed", True)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (5, 9)
    assert (ended.prompt_tokens, ended.completion_tokens) == (5, 9)
    assert record["ideal_s"] == ended.ideal_s == 1.5


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("completions", TEXT),
        ("completions", TEXT | {"prompt": ["a", "bb"], "n": 2, "echo": True, "logprobs": 2, "seed": 4}),
        ("completions", TEXT | {"prompt": [104, 105], "prompt_logprobs": 1}),
        ("completions", TEXT | {"max_tokens": 0, "echo": True, "logprobs": 0}),
        ("chat/completions", CHAT | {"n": 2, "logprobs": True, "top_logprobs": 2, "prompt_logprobs": 0}),
    ],
)
async def test_an_answer_is_the_doors_own(
    fronted: Running, opened: OpenDoor, store: Any, path: str, body: dict[str, Any]
) -> None:
    """The gateway puts it together from a stream; asked itself, the door writes it as a whole."""
    answer = json.loads(await ask(fronted, path, body))
    async with opened.http.post(f"{opened.url}/v1/{path}", json=body, headers=AUTH) as response:
        own = await response.json()
    differs = ("id", "created", "berth")
    assert {k: v for k, v in answer.items() if k not in differs} == {k: v for k, v in own.items() if k not in differs}
    assert answer["object"] == ("text_completion" if path == "completions" else "chat.completion")
    record = await record_of(store)
    assert record.get("completion_tokens", 0) == own["usage"]["completion_tokens"]
    assert record["prompt_tokens"] == own["usage"]["prompt_tokens"]


async def test_the_official_client_completes_text(fronted: Running) -> None:
    client = openai.AsyncOpenAI(base_url=f"{fronted.base}/v1", api_key=fronted.token, max_retries=0)
    text = ""
    async for chunk in await client.completions.create(model="m", prompt="x", max_tokens=2, stream=True, echo=True):
        text += chunk.choices[0].text
    assert text == "xw0 w1 "
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(model="m", prompt="x", suffix="y")
    assert (refused.value.param, refused.value.code) == ("suffix", "unsupported_value")
    with pytest.raises(openai.BadRequestError) as refused:
        await client.completions.create(model="m", prompt="x", logit_bias={"3000": 1})
    assert refused.value.param == "logit_bias"


async def test_a_client_that_leaves_ends_every_choice(
    fronted: Running, opened: OpenDoor, backend: ScriptedBackend, store: Any
) -> None:
    body = CHAT | {"n": 3, "max_tokens": 900, "stream": True}
    async with fronted.http.post(f"{fronted.base}/v1/chat/completions", json=body, headers=fronted.headers) as answer:
        while len(backend.generated) < 3:
            await answer.content.readany()
        answer.close()
    record = await record_of(store)
    async with asyncio.timeout(PATIENCE_S):
        while opened.replica.active:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (ended,) = opened.ended()
    assert (record["outcome"], ended.outcome, len(backend.closed)) == ("client_left", "client_left", 3)
    assert 0 < record["completion_tokens"] <= ended.completion_tokens == sum(backend.generated.values()) < 2700


def test_the_output_is_reserved_for_every_choice() -> None:
    chat = json.dumps(CHAT | {"n": 4, "max_tokens": 100}).encode()
    prompt = -(-len(chat) // 3) + 64
    assert parse_chat(chat).reserve(512) == (prompt, 400)
    text = json.dumps({"model": "m", "prompt": ["a", "b", "c"], "n": 2}).encode()
    assert parse_completion(text).reserve(512) == (-(-len(text) // 3) + 64, 6 * 16)
    assert parse_chat(json.dumps({k: v for k, v in CHAT.items() if k != "max_tokens"} | {"n": 2}).encode()).choices == 2


def test_conversations_and_texts_that_begin_alike_go_the_same_way() -> None:
    one, two = (parse_completion(json.dumps(TEXT | {"prompt": "a" * 2000 + end}).encode()) for end in ("x", "y"))
    other = parse_completion(json.dumps(TEXT | {"prompt": [1, 2, 3]}).encode())
    assert one.affinity == two.affinity == b"a" * 1024
    assert other.affinity == b"1,2,3"


@pytest.mark.parametrize("spaced", [False, True])
def test_the_rise_of_a_count_belongs_to_the_choice_in_the_frame(spaced: bool) -> None:
    def frame(index: int, total: int) -> bytes:
        choice = {"index": index, "delta": {"content": '"index":7,'}, "logprobs": None, "finish_reason": None}
        usage = {"prompt_tokens": 5, "completion_tokens": total, "total_tokens": 5 + total}
        data = {"id": "c", "choices": [choice], "usage": usage}
        return b"data: " + json.dumps(data, separators=None if spaced else (",", ":")).encode() + b"\n\n"

    frames = StreamFilter(False, False, several=True)
    frames.take(frame(0, 0) + frame(0, 1) + frame(2, 3) + frame(1, 4) + frame(2, 5))
    assert frames.risen() == [(0, 1), (2, 3), (1, 1)]
    assert (frames.risen(), frames.completion_tokens) == ([], 5)
