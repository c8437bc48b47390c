"""Bodies that no client sends, at a door: each is served or refused in words, and none is a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from helpers.door import AUTH, ScriptedBackend, open_door

SAID = [{"role": "user", "content": "x"}]
WIDE = {"type": "object", "properties": {f"p{j}": {"type": "string"} for j in range(50)}}


def called(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"messages": [*SAID, said, {"role": "tool", "tool_call_id": "c", "content": "x"}]}


def schema(value: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": value}}}


def forced(parameters: Any, count: int = 1) -> dict[str, Any]:
    functions = [{"name": f"f{number}", "parameters": parameters} for number in range(count)]
    return {"tools": [{"type": "function", "function": one} for one in functions], "tool_choice": "required"}


CHATS: list[dict[str, Any]] = [
    *({"messages": [{"role": "user", "content": "a\0b"}]}, {"messages": SAID * 50_000}),
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 50_000}]},
    *({"stop": ["\0"]}, {"stop": [""]}, {"stop": ["x" * 1_000_000]}),
    *({"logit_bias": {key: 1}} for key in ("1e400", "-1", "99999999999999999", "0x1", "１")),
    *({"logit_bias": {"1": 1e308}}, {"seed": 2**63}, {"seed": -(2**63)}, {"seed": 1e30}),
    *({"n": 10**9}, {"n": 0}, {"max_tokens": 2**62}, {"max_tokens": 0}, {"top_k": 2**40}),
    *({"min_p": 2}, {"repetition_penalty": 1e-308}, {"repetition_penalty": 0}),
    *(called("[" * 900 + "]" * 900), called('{"a": 1e400, "b": ' + "9" * 5000 + "}"), called("\0")),
    *(schema({"const": "\0"}), schema({"$ref": "#/$defs/none"}), schema({"minimum": 1e308, "maximum": -1e308})),
    schema({"type": 7, "properties": [1], "required": {"a": 1}, "items": "x"}),
    *(
        {"structured_outputs": {"regex": text}}
        for text in ("\\p{Nonsense}", "(?<a>x)\\1(?=y)", "\0", "[z-a]", "a{9,1}")
    ),
    {"structured_outputs": {"choice": ["\0", "\u2028", '"\\"']}},
    {"structured_outputs": {"grammar": "%import common.WORD\nstart: WORD\n%ignore /(/"}},
    {"structured_outputs": {"grammar": '%llguidance {"no_forcing": 1e400}\nstart: /x/'}},
    {"structured_outputs": {"grammar": 'start: %json {"type": 3}'}},
    {"structured_outputs": {"grammar": "start: <|im_end|> <[1-99999999999]>"}},
    *(forced({"$ref": "#/x"}), forced({"properties": {"$ref": "#"}, "$ref": 7}), forced(WIDE, count=128)),
]
PROMPTS: list[Any] = [[-1], [2**40], [[1]] * 129, "\0", "", [], ["a", 1], "x" * 900_000]
TOKENS: list[dict[str, Any]] = [
    *({"prompt": "\0"}, {"messages": SAID}, {"tokens": [2**40]}, {"tokens": [-1]}, {"tokens": [1.5]}),
    *({"tokens": list(range(1000)) * 400}, {"prompt": None, "messages": None}, {"prompt": "x", "messages": SAID}),
]


@pytest.mark.timeout(120)
async def test_no_body_breaks_a_door() -> None:
    bodies = [("/v1/chat/completions", {"messages": SAID, "max_tokens": 3} | body) for body in CHATS]
    bodies += [("/v1/completions", {"prompt": prompt, "max_tokens": 2}) for prompt in PROMPTS]
    bodies += [(path, body) for path in ("/tokenize", "/detokenize") for body in TOKENS]
    async with open_door(ScriptedBackend()) as door, aiohttp.ClientSession() as http:
        model = door.replica.config.served_model_name
        for path, body in bodies:
            data = json.dumps({"model": model} | body).encode()
            async with http.post(door.url + path, data=data, headers=AUTH) as answer:
                said = await answer.read()
            assert answer.status < 500, (path, data[:200], said[:300])
            assert answer.status == 200 or json.loads(said)["error"]["message"], (path, data[:200])
