"""Chat and text completions, embeddings and models: whole, streamed, and by the client's own helpers."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from typing import Any

import openai
import pytest

from helpers.openai_answers import check_answer, check_stream

from .conftest import World

CAPITAL: Any = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
USAGE: Any = {"include_usage": True}


def test_a_whole_answer(world: World, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=world.model, messages=CAPITAL, temperature=0)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id, "the id to report a problem with"


def test_a_stream_and_its_usage(world: World, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=world.model, messages=CAPITAL, temperature=0, stream=True, stream_options=USAGE
    )
    chunks = list(stream)
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == ANSWER
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_many_streams_at_once(world: World) -> None:
    async def one(client: openai.AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(model=world.model, messages=CAPITAL, temperature=0, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def every() -> list[str]:
        async with world.async_client() as client:
            return await asyncio.gather(*(one(client) for _ in range(4)))

    assert asyncio.run(every()) == [ANSWER] * 4


def test_the_streams_helper(world: World, client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model=world.model, messages=CAPITAL, temperature=0) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert final.choices[0].message.content == ANSWER
    assert events.count("content.done") == 1
    assert events.count("content.delta") > 3


def test_several_choices(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "messages": CAPITAL, "n": 3, "max_tokens": 4, "seed": 7}
    whole = client.chat.completions.create(**asked)
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(**asked, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert [choice.message.content for choice in whole.choices] == texts, "a seed says it the same"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities(world: World, client: openai.OpenAI, stream: bool) -> None:
    asked: Any = {"model": world.model, "messages": CAPITAL, "max_tokens": 3, "temperature": 0}
    answer: Any = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2, stream=stream)
    scored = [choice.logprobs for one in (answer if stream else [answer]) for choice in one.choices]
    tokens = [token for scores in scored if scores is not None for token in scores.content]
    assert len(tokens) == 3
    for token in tokens:
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        assert len(token.top_logprobs) == 2
        assert bytes(token.bytes).decode() == token.token


def test_the_tier_that_served_is_told(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "messages": CAPITAL, "max_tokens": 1}
    assert client.chat.completions.create(**asked, service_tier="auto").service_tier == "default"
    assert client.chat.completions.create(**asked, service_tier="flex").service_tier == "flex"
    assert client.chat.completions.create(**asked).service_tier is None
    with pytest.raises(openai.BadRequestError, match="it allows auto, default, flex") as refusal:
        client.chat.completions.create(**asked, service_tier="priority")
    assert refusal.value.param == "service_tier"


def test_text_completions(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "prompt": "The capital of France is", "max_tokens": 3, "temperature": 0}
    whole = client.completions.create(**asked, logprobs=1, echo=True)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**asked, stream=True))
    assert whole.choices[0].text == asked["prompt"] + streamed
    assert whole.choices[0].logprobs is not None
    assert "".join(whole.choices[0].logprobs.tokens or []) == whole.choices[0].text


def test_embeddings_are_the_same_in_either_encoding(world: World, client: openai.OpenAI) -> None:
    texts = ["a cat", "a dog"]
    plain = client.embeddings.create(model=world.model, input=texts)  # the client asks for base64 and decodes it
    asked: Any = {"model": world.model, "input": texts, "encoding_format": "base64"}
    raw = client.embeddings.with_raw_response.create(**asked).http_response.json()
    assert [one.index for one in plain.data] == [0, 1]
    for one, shown in zip(plain.data, raw["data"], strict=True):
        decoded = base64.b64decode(shown["embedding"])
        assert list(struct.unpack(f"<{len(decoded) // 4}f", decoded)) == one.embedding
        assert math.isclose(math.hypot(*one.embedding), 1, rel_tol=1e-3)
    assert plain.usage.prompt_tokens == plain.usage.total_tokens > 0


def test_models(world: World, client: openai.OpenAI) -> None:
    listed = {model.id for model in client.models.list()}
    assert {world.model, world.caller, world.asleep} <= listed
    assert client.models.retrieve(world.model).id == world.model
    with pytest.raises(openai.NotFoundError, match="'org/name'"):
        client.models.retrieve("org/name")


@pytest.mark.parametrize(
    "more", [{}, {"n": 2, "seed": 1}, {"logprobs": True, "top_logprobs": 1}, {"service_tier": "flex"}]
)
def test_every_byte_is_openais(world: World, client: openai.OpenAI, more: Any) -> None:
    """Whole and as frames, before the client makes anything of it."""
    asked: Any = {"model": world.model, "messages": CAPITAL, "max_tokens": 4, "temperature": 0, **more}
    raw = client.chat.completions.with_raw_response
    check_answer(raw.create(**asked).http_response.json())
    for options in (openai.omit, USAGE):
        streaming = client.chat.completions.with_streaming_response
        with streaming.create(**asked, stream=True, stream_options=options) as answer:
            check_stream(answer.read(), usage=options is USAGE)
    check_answer(client.models.with_raw_response.list().http_response.json())
