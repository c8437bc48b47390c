"""What a client may send to make a door work for ever, or fall: each is compiled or refused in words, at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuruntime.door.chat_request import plain_messages
from gpuruntime.door.structure import asked_grammar
from gpuruntime.openai_api import BadBody
from gpuruntime.openai_checks import decode_chat
from gpuruntime.openai_depth import MAX_DEPTH, is_deep

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
BOMBS: dict[str, dict[str, Any]] = {
    "counts of counts": {"regex": "((a{1,1000}){1,1000}){1,1000}"},
    "many ways": {"regex": "(a|aa)+" * 50 + "(.*a){60}"},
    "a long memory": {"regex": ".*a.{60}b"},
    "groups": {"regex": "(" * 5000 + "a" + ")" * 5000},
    "doubling": {"grammar": "start: x0\n" + "".join(f"x{i}: x{i + 1} x{i + 1}\n" for i in range(60)) + 'x60: "a"'},
    "no end": {"grammar": "start: a\na: a a | a"},
    "a million": {"grammar": 'start: "x"{1,1000000}'},
    "references": {"json": {"$ref": "#/$defs/d0", "$defs": {
        f"d{i}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/d{min(i + 1, 40)}"} for key in "ab"}}
        for i in range(41)}}},
    "itself": {"json": {"$ref": "#"}},
    "a file": {"json": {"$ref": "file:///etc/passwd"}},
    "an address": {"json": {"$ref": "http://127.0.0.1:9/x"}},
    "a wide one": {"json": {"anyOf": [{"required": [f"p{i}"]} for i in range(2000)]}},
    "a long text": {"json": {"type": "string", "minLength": 10**6, "maxLength": 10**9}},
    "choices": {"choice": [f"c{i}" for i in range(10_000)]},
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_a_grammar_that_would_grow_is_compiled_or_refused(name: str) -> None:
    chat = decode_chat(json.dumps(CHAT | {"structured_outputs": BOMBS[name]}).encode())
    refused: BadBody | None = None
    try:
        grammar = asked_grammar(chat)
        assert grammar is not None
        grammar.check()
    except BadBody as error:
        refused = error
    assert refused is None or (refused.param and "root:" not in str(refused))


def nested(depth: int) -> str:
    return '{"items":' * depth + "{}" + "}" * depth


@pytest.mark.parametrize("depth", [MAX_DEPTH, 200, 480, 700, 900])
def test_what_is_nested_deeper_than_code_walks_is_refused_by_its_field(depth: int) -> None:
    """Found at 500 levels: JSON's reader let them through, and what stands a tool's schema on its own root fell."""
    fields = {
        "tools[0].function.parameters": '"tool_choice": "required", "tools": '
        f'[{{"type": "function", "function": {{"name": "f", "parameters": {nested(depth)}}}}}]',
        "response_format": '"response_format": {"type": "json_schema", "json_schema": '
        f'{{"name": "s", "schema": {nested(depth)}}}}}',
        "structured_outputs": f'"structured_outputs": {{"json": {nested(depth)}}}',
    }
    for field, text in fields.items():
        with pytest.raises(BadBody) as refusal:
            decode_chat(f"{json.dumps(CHAT)[:-1]}, {text}}}".encode())
        assert refusal.value.param == field


@pytest.mark.parametrize("depth", [900, 5000, 200_000])
def test_arguments_too_deep_to_be_read_stay_text(depth: int) -> None:
    text = "[" * depth + "]" * depth
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = CHAT | {"messages": [*CHAT["messages"], said, {"role": "tool", "tool_call_id": "c", "content": "x"}]}
    plain = plain_messages(decode_chat(json.dumps(body).encode()).messages)
    assert plain[1]["tool_calls"][0]["function"]["arguments"] == text


def test_depth_is_counted_to_the_level() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert not is_deep(value)
    assert is_deep([[value]])
