"""What a body may say: each malformed one is a 400 that names its field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuruntime.door.chat_request import parse_chat
from gpuruntime.door.errors import ApiError
from gpuruntime.openai_api import BadBody

USER = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f"}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": USER, **fields}).encode()


def schema(value: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": value}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 3}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [*USER, {"role": "robot", "content": "x"}]}, "messages[1].role"),
        ({"messages": [*USER, {"content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"seed": 1 << 63}, "seed"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": 4}, "stop"),
        ({"n": 17}, "n"),
        ({"n": 0}, "n"),
        ({"min_p": 1.5}, "min_p"),
        ({"presence_penalty": -2.5}, "presence_penalty"),
        ({"frequency_penalty": 3}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"one": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"1": "x"}}, "logit_bias"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
        ({"stop_token_ids": [-3]}, "stop_token_ids"),
        ({"logprobs": 3}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [TOOL, {"type": "function", "function": {"name": "a b"}}]}, "tools[1].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": "x"}}]},
            "tools[0].function.parameters",
        ),
        ({"tools": [TOOL] * 129}, "tools"),
        ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": {"name": "f"}}, "function_call"),
        (
            {"messages": [*USER, {"role": "assistant", "tool_calls": [{"id": "c"}]}]},
            "messages[1].tool_calls[0].function",
        ),
        ({"messages": [*USER, {"role": "tool", "tool_call_id": "c"}]}, "messages[1].content"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": schema(3)}, "response_format.json_schema.schema"),
        ({"response_format": schema({"enum": ["x" * (256 << 10)]})}, "response_format.json_schema.schema"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": [""]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"ignore_eos": "no"}, "ignore_eos"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_chat(body(**fields))
    assert (caught.value.status, caught.value.param) == (400, param)
    error = json.loads(caught.value.body())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert param in error["message"]


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_missing_field_is_named(missing: str) -> None:
    fields = json.loads(body())
    del fields[missing]
    with pytest.raises(ApiError) as caught:
        parse_chat(json.dumps(fields).encode())
    assert caught.value.param == missing


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff\xfe", b'{"model": "m", "messages": [' + b"[" * 100_000])
def test_what_is_no_json_object_is_400(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_chat(raw)
    assert caught.value.status == 400


def test_content_may_be_text_parts_or_null_and_unknown_fields_are_ignored() -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
    ]
    request = parse_chat(body(messages=messages, frobnicate={"x": 1}))
    assert list(request.messages) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": ""},
    ]


def test_the_models_own_sampling_fills_only_what_the_client_left_out() -> None:
    defaults = {"temperature": 0.2, "top_p": 0.9}
    params = parse_chat(body(temperature=0, stop="END", seed=7)).params(5, defaults)
    assert (params.temperature, params.top_p, params.seed, params.stop) == (0, 0.9, 7, ("END",))
    bare = parse_chat(body()).params(5, {})
    assert (bare.temperature, bare.top_p, bare.top_k, bare.seed) == (1.0, 1.0, 0, None)


def test_max_completion_tokens_wins_over_its_old_name() -> None:
    assert parse_chat(body(max_tokens=5, max_completion_tokens=9)).max_tokens == 9


def test_calls_and_their_results_are_what_templates_want() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, "x"]}'}}
    odd = {"id": "call_2", "type": "function", "function": {"name": "f", "arguments": "{broken"}}
    messages = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [call, odd]},
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    ]
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": True}}
    asked = parse_chat(body(messages=messages, tools=[tool]))
    assert asked.messages[1]["content"] == ""
    given = [call["function"]["arguments"] for call in asked.messages[1]["tool_calls"]]
    assert given == [{"a": [1, "x"]}, "{broken"]
    assert asked.messages[2] == {"role": "tool", "content": "42", "tool_call_id": "call_1"}
    assert asked.tools == ({"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}},)


def test_tools_that_may_not_be_called_are_not_offered() -> None:
    assert parse_chat(body(tools=[TOOL], tool_choice="none")).tools == ()
    assert parse_chat(body(tools=[TOOL], tool_choice="auto")).tools == (TOOL,)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": schema({"type": "objekt"})}, "response_format.json_schema.schema"),
        ({"response_format": schema({"$ref": "#/$defs/x"})}, "response_format.json_schema.schema"),
        ({"structured_outputs": {"regex": "[a-"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"grammar": "start: ("}}, "structured_outputs.grammar"),
        (
            {"tools": [{**TOOL, "function": {"name": "f", "parameters": {"type": "x"}}}], "tool_choice": "required"},
            "tool_choice",
        ),
    ],
)
def test_what_does_not_compile_is_named(fields: dict[str, Any], param: str) -> None:
    grammar = parse_chat(body(**fields)).grammar
    assert grammar is not None
    with pytest.raises(BadBody) as caught:
        grammar.check()
    assert caught.value.param == param
