"""What leaves the gateway, strictly: a real door answers, and every body and every frame is OpenAI's to the field."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import pydantic
import pytest

from gpuruntime.tools.formats import HERMES
from helpers.door import TOKEN, ScriptedBackend, open_door
from helpers.gateway import Running, make_key, make_snapshot, running_gateway
from helpers.openai_answers import check_answer, check_error, check_stream

CHAT, TEXT, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
CALLS = ("Let me ", 'see. <tool_call>\n{"name": "add", "argu', 'ments": {"a": 1}}\n</tool_call><tool_call>\n{"name": ',
         '"add", "arguments": {}}</tool_call>')  # fmt: skip
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass
class Asking:
    """Bodies as bytes: what a client would make of them is not asked."""

    running: Running

    async def post(self, path: str = CHAT, **body: Any) -> tuple[int, bytes]:
        data = {"model": "m", "max_tokens": 3} | body
        async with self.running.http.post(self.running.base + path, json=data, headers=self.running.headers) as answer:
            return answer.status, await answer.read()


@contextlib.asynccontextmanager
async def asking(redis_url: str, *says: str, **more: Any) -> AsyncIterator[Asking]:
    key, token = make_key()
    backend = ScriptedBackend(says=says, tool_format=HERMES, **more)
    async with open_door(backend) as door:
        snapshot = make_snapshot([door.url], key, door_token=TOKEN, model="m")
        async with running_gateway(snapshot, token, redis_url) as running:
            yield Asking(running)


def messages(text: str = "hi") -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


# What is asked for, the pieces that the engine says, and fields beyond OpenAI's that it asks for.
ASKED: dict[str, tuple[str, dict[str, Any], tuple[str, ...], frozenset[str]]] = {
    "chat": (CHAT, {"messages": messages()}, (), frozenset()),
    "tier": (CHAT, {"messages": messages(), "service_tier": "auto"}, (), frozenset()),
    "three": (CHAT, {"messages": messages(), "n": 3, "seed": 1}, (), frozenset()),
    "scores": (CHAT, {"messages": messages(), "logprobs": True, "top_logprobs": 2}, (), frozenset()),
    "calls": (CHAT, {"messages": messages(), "tools": TOOLS}, CALLS, frozenset()),
    "scored calls": (CHAT, {"messages": messages(), "tools": TOOLS, "logprobs": True, "n": 2}, CALLS, frozenset()),
    "one call": (CHAT, {"messages": messages(), "tools": TOOLS, "parallel_tool_calls": False}, CALLS, frozenset()),
    "scored prompt": (CHAT, {"messages": messages(), "prompt_logprobs": 1}, (), frozenset({"prompt_logprobs"})),
    "text": (TEXT, {"prompt": "hi"}, (), frozenset()),
    "texts": (TEXT, {"prompt": ["hi", "ho"], "n": 2, "echo": True, "logprobs": 2}, (), frozenset()),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ASKED))
async def test_whole_answers_and_streams(name: str, store: Any, redis_url: str) -> None:
    path, body, says, extra = ASKED[name]
    async with asking(redis_url, *says) as client:
        status, whole = await client.post(path, **body)
        assert status == 200, whole
        check_answer(json.loads(whole), extra=extra)
        plain = check_stream((await client.post(path, **body, stream=True))[1], extra=extra)
        counted = check_stream((await client.post(path, **body, **USAGE))[1], usage=True, extra=extra)
    assert len(counted) == len(plain) + 1
    tier = json.loads(whole).get("service_tier")
    assert (tier, plain[0].get("service_tier")) == (("default",) * 2 if name == "tier" else (None,) * 2)


async def test_reasoning_stands_apart_in_the_field_that_is_not_openais(store: Any, redis_url: str) -> None:
    extra = frozenset({"reasoning_content"})
    async with asking(redis_url, "<think>why", "</think>", "so", thinks=True) as client:
        check_answer(json.loads((await client.post(messages=messages()))[1]), extra=extra)
        check_stream((await client.post(messages=messages(), stream=True))[1], extra=extra)


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_embeddings(encoding: str, store: Any, redis_url: str) -> None:
    async with asking(redis_url) as client:
        status, body = await client.post(EMBEDDINGS, input=["a", "b"], encoding_format=encoding, max_tokens=None)
    assert status == 200, body
    shown = json.loads(body)
    if encoding == "base64":
        assert all(isinstance(one["embedding"], str) for one in shown["data"])
        shown["data"] = [one | {"embedding": []} for one in shown["data"]]  # the client's type is of decoded ones
    check_answer(shown)


async def test_models_by_list_and_by_id_with_slashes_in_it(store: Any, redis_url: str) -> None:
    key, token = make_key()
    snapshot = make_snapshot([], key, model="org/name: a")
    async with running_gateway(snapshot, token, redis_url) as running:
        for path in ("/v1/models", "/v1/models/org/name:%20a", "/v1/models/org%2Fname%3A%20a"):
            async with running.http.get(running.base + path, headers=running.headers) as answer:
                assert answer.status == 200, path
                check_answer(await answer.json())


WRONG: list[tuple[str, str, dict[str, Any], int]] = [
    ("POST", CHAT, {"messages": "hi"}, 400),
    ("POST", CHAT, {"messages": messages(), "web_search_options": {}}, 400),
    ("POST", CHAT, {"messages": messages("unrenderable")}, 400),
    ("POST", CHAT, {"messages": messages(), "model": "other"}, 404),
    ("POST", TEXT, {"prompt": ""}, 400),
    ("POST", EMBEDDINGS, {"input": ""}, 400),
    ("GET", "/v1/models/other", {}, 404),
    ("GET", "/v1/other", {}, 404),
    ("GET", CHAT, {}, 405),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
async def test_errors(number: int, store: Any, redis_url: str) -> None:
    method, path, body, status = WRONG[number]
    async with asking(redis_url) as client:
        running, data = client.running, {"model": "m"} | body
        async with running.http.request(method, running.base + path, json=data, headers=running.headers) as answer:
            assert answer.status == status
            check_error(status, await answer.json())
        async with running.http.post(running.base + CHAT, json=data, headers={"Authorization": "Bearer x"}) as answer:
            assert answer.status == 401
            check_error(401, await answer.json())


async def test_a_stream_that_fails_ends_with_an_error_and_is_not_done(store: Any, redis_url: str) -> None:
    async with asking(redis_url, fail_after=2) as client:
        _, raw = await client.post(messages=messages(), stream=True)
    *before, last = [block for block in raw.decode().split("\n\n") if block]
    assert b"[DONE]" not in raw
    for block in before:
        check_answer(json.loads(block.removeprefix("data: ")))
    check_error(500, json.loads(last.removeprefix("data: ")))


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda chunk: chunk | {"made_up": 1},
        lambda chunk: chunk | {"service_tier": "gold"},
        lambda chunk: chunk | {"created": "1"},
        lambda chunk: chunk | {"choices": [chunk["choices"][0] | {"finish_reason": "done"}]},
        lambda chunk: chunk | {"choices": [chunk["choices"][0] | {"delta": {"content": 1}}]},
        lambda chunk: {name: value for name, value in chunk.items() if name != "id"},
        lambda chunk: chunk | {"berth": {}},
    ],
)
async def test_the_check_itself_sees_what_is_not_openais(spoiled: Any, store: Any, redis_url: str) -> None:
    async with asking(redis_url) as client:
        chunk = check_stream((await client.post(messages=messages(), stream=True))[1])[1]
    check_answer(chunk)
    with pytest.raises((AssertionError, pydantic.ValidationError, jsonschema.ValidationError)):
        check_answer(spoiled(chunk))
