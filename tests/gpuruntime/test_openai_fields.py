"""Every field that OpenAI's own types have: honoured, of no effect by what it means, or refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionStreamOptionsParam,
)
from openai.types.chat import (
    completion_create_params as chat_params,
)

from gpuruntime.openai_api import BadBody, ChatBody, CompletionBody, EmbeddingBody, Message, StreamOptions
from gpuruntime.openai_checks import decode_chat, decode_completion

# Of no effect on an answer, as OpenAI describes them: who asks, and labels of what is stored (nothing is).
IDLE = {"user", "metadata", "safety_identifier"}
# (a value that asks for something, values that ask for nothing)
REFUSED: dict[str, tuple[Any, list[Any]]] = {
    "functions": ([{"name": "f"}], [[]]),
    "function_call": ({"name": "f"}, ["none", "auto"]),
    "modalities": (["text", "audio"], [["text"], []]),
    "audio": ({"voice": "alloy", "format": "wav"}, []),
    "moderation": ({"model": "omni"}, []),
    "prediction": ({"type": "content", "content": "x"}, []),
    "prompt_cache_options": ({"ttl": "30m"}, [{}, {"mode": "implicit"}]),
    "prompt_cache_retention": ("24h", ["in_memory"]),
    "reasoning_effort": ("low", []),
    "store": (True, [False]),
    "verbosity": ("low", ["medium"]),
    "web_search_options": ({}, []),
}
HONOURED = {
    "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "model", "n",
    "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "response_format", "seed", "service_tier", "stop",
    "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p",
}  # fmt: skip
COMPLETION_REFUSED: dict[str, tuple[Any, list[Any]]] = {"suffix": ("x", [""]), "best_of": (2, [1])}
COMPLETION_HONOURED = {
    "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "model", "n", "presence_penalty", "prompt",
    "seed", "stop", "stream", "stream_options", "temperature", "top_p",
}  # fmt: skip


def fields_of(*shapes: Any) -> set[str]:
    """Of the typed dictionaries and those they build on: inherited annotations are in each one's own."""
    return {name for shape in shapes for name in shape.__annotations__}


CHAT_FIELDS = fields_of(chat_params.CompletionCreateParamsNonStreaming, chat_params.CompletionCreateParamsStreaming)
COMPLETION_FIELDS = fields_of(
    completion_create_params.CompletionCreateParamsNonStreaming,
    completion_create_params.CompletionCreateParamsStreaming,
)


def chat(**values: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]} | values).encode()


def completion(**values: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "hi"} | values).encode()


def test_the_table_has_every_field_of_openais_types() -> None:
    assert len(CHAT_FIELDS) > 30
    assert HONOURED | IDLE | REFUSED.keys() == CHAT_FIELDS
    assert COMPLETION_HONOURED | {"user"} | COMPLETION_REFUSED.keys() == COMPLETION_FIELDS


def test_every_field_has_its_place_in_our_bodies() -> None:
    """What has none would be ignored without a word."""
    assert CHAT_FIELDS - set(ChatBody.__struct_fields__) == set()
    assert COMPLETION_FIELDS - set(CompletionBody.__struct_fields__) == set()
    assert fields_of(embedding_create_params.EmbeddingCreateParams) - set(EmbeddingBody.__struct_fields__) == set()
    assert fields_of(ChatCompletionAssistantMessageParam) - set(Message.__struct_fields__) == set()
    assert fields_of(ChatCompletionStreamOptionsParam) - set(StreamOptions.__struct_fields__) == set()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_chat_cannot_have_is_refused_by_name(name: str) -> None:
    asking, idle = REFUSED[name]
    with pytest.raises(BadBody) as refusal:
        decode_chat(chat(**{name: asking}))
    assert (refusal.value.param, refusal.value.code) == (name, "unsupported_value")
    for value in (None, *idle):
        decode_chat(chat(**{name: value}))


@pytest.mark.parametrize("name", sorted(COMPLETION_REFUSED))
def test_what_a_completion_cannot_have_is_refused_by_name(name: str) -> None:
    asking, idle = COMPLETION_REFUSED[name]
    with pytest.raises(BadBody) as refusal:
        decode_completion(completion(**{name: asking}))
    assert (refusal.value.param, refusal.value.code) == (name, "unsupported_value")
    for value in (None, *idle):
        decode_completion(completion(**{name: value}))


@pytest.mark.parametrize("body", [chat, completion])
def test_frames_are_not_padded(body: Any) -> None:
    decode = decode_chat if body is chat else decode_completion
    decode(body(stream_options={"include_obfuscation": False}))
    with pytest.raises(BadBody) as refusal:
        decode(body(stream_options={"include_obfuscation": True}))
    assert refusal.value.param == "stream_options.include_obfuscation"


@pytest.mark.parametrize(("name", "value"), [("audio", {"id": "a"}), ("function_call", {"name": "f"})])
def test_what_a_message_cannot_have_is_refused_where_it_stands(name: str, value: Any) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, name: value}]
    with pytest.raises(BadBody) as refusal:
        decode_chat(chat(messages=said))
    assert refusal.value.param == f"messages[1].{name}"


def test_metadata_is_checked_as_openai_does() -> None:
    decode_chat(chat(metadata={f"k{n}": "v" * 512 for n in range(16)}))
    for wrong in ({f"k{n}": "v" for n in range(17)}, {"k" * 65: "v"}, {"k": "v" * 513}, {"k": 1}):
        with pytest.raises(BadBody) as refusal:
            decode_chat(chat(metadata=wrong))
        assert refusal.value.param == "metadata"


def test_a_tier_is_one_of_openais_words() -> None:
    decode_chat(chat(service_tier="flex"))
    with pytest.raises(BadBody) as refusal:
        decode_chat(chat(service_tier="gold"))
    assert refusal.value.param == "service_tier"
