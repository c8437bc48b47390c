"""What every answer of ``/v1`` has to be: strictly of the types of OpenAI's own client, and of OpenAI's schema.

Imports nothing of ours, so that it runs beside any version of the client. The types take only what they name, and of
literals only those; ``NAMESPACED`` are fields of ours and vLLM's, which a client has to ask for or only doors have. The
schema's parts that answers need are kept in the repository; the whole of it is asked as well where ``../shared`` is.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
SCHEMAS = (ROOT / "tests/gpuruntime/door/openai_schema.json", ROOT.parent / "shared/data/openai_schema.json")
NAMESPACED = frozenset({"berth", "max_model_len", "prompt_logprobs", "reasoning_content"})

# By "object" and whether it is a chunk: (type of the client, name in the schema).
_KINDS: dict[str, tuple[type[BaseModel], str]] = {
    "chat.completion": (ChatCompletion, "CreateChatCompletionResponse"),
    "chat.completion.chunk": (ChatCompletionChunk, "CreateChatCompletionStreamResponse"),
    "text_completion": (Completion, "CreateCompletionResponse"),
    "list": (CreateEmbeddingResponse, "CreateEmbeddingResponse"),
    "model": (Model, "Model"),
}
ERROR_STATUS = {
    "invalid_request_error": {400, 403, 404, 405, 408, 413},
    "authentication_error": {401},
    "rate_limit_error": {429},
    "insufficient_quota": {429},
    "overloaded_error": {503},
    "server_error": {500, 502, 504},
}


def check_answer(body: dict[str, Any], *, extra: frozenset[str] = frozenset()) -> None:
    """Raises ``AssertionError`` or the validators' own, where the answer is not OpenAI's.

    ``extra``: the fields beyond OpenAI's that were asked for, of ``NAMESPACED``.
    """
    assert extra <= NAMESPACED
    if body.get("object") == "list" and all(one.get("object") == "model" for one in body["data"]):
        assert body.keys() == {"object", "data"}
        for one in body["data"]:
            check_answer(one, extra=extra)
        _check_schema("ListModelsResponse", body)
        return
    kind, name = _KINDS[body["object"]]
    plain = _without(body, extra)
    if name == "CreateCompletionResponse":
        plain = _as_described(plain)
    read = kind.model_validate_json(json.dumps(plain), strict=True)
    assert list(_unknown(read)) == [], "fields that OpenAI's answer does not have"
    _check_schema(name, plain)
    if name == "CreateChatCompletionResponse":
        for message in (choice["message"] for choice in plain["choices"]):
            assert message["content"] is None or "tool_calls" not in message or message["content"], "null, not empty"


def check_error(status: int, body: dict[str, Any]) -> None:
    """OpenAI's error object, with all four keys."""
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str), error
    assert error["message"]
    assert status in ERROR_STATUS[error["type"]], (status, error)
    assert isinstance(error["code"], str), error
    assert error["param"] is None or isinstance(error["param"], str)


def check_stream(raw: bytes, *, usage: bool = False, extra: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The chunks of a whole stream, in order. ``usage``: whether the client asked to be told."""
    assert raw.endswith(b"data: [DONE]\n\n"), raw[-300:]
    blocks = [block for block in raw.decode().split("\n\n") if block and not block.startswith(":")]
    assert blocks.count("data: [DONE]") == 1
    chunks: list[dict[str, Any]] = [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]
    for chunk in chunks:
        assert "error" not in chunk, chunk
        check_answer(chunk, extra=extra)
    heads = [
        {name: chunk.get(name) for name in ("id", "object", "created", "model", "service_tier")} for chunk in chunks
    ]
    assert all(head == heads[0] for head in heads), "one head in every chunk"
    _check_usage(chunks, usage)
    told = [chunk for chunk in chunks if chunk["choices"]]
    for index in range(1 + max(chunk["choices"][0]["index"] for chunk in told)):
        _check_choice([chunk["choices"][0] for chunk in told if chunk["choices"][0]["index"] == index])
    return chunks


def _check_usage(chunks: list[dict[str, Any]], asked: bool) -> None:
    if not asked:
        assert not any("usage" in chunk for chunk in chunks), "nobody asked for usage"
        assert all(len(chunk["choices"]) == 1 for chunk in chunks)
        return
    *rest, last = chunks
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in rest)
    assert last["choices"] == []
    counts = last["usage"]
    assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]


def _check_choice(choices: list[dict[str, Any]]) -> None:
    """The role once and first, a call's id, type and name once, one finish reason, and it last."""
    assert all({"finish_reason", "logprobs"} <= choice.keys() for choice in choices)
    reasons = [choice["finish_reason"] for choice in choices]
    assert reasons[-1] is not None
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    if "delta" not in choices[0]:
        return
    deltas = [choice["delta"] for choice in choices]
    assert ["role" in delta for delta in deltas] == [True] + [False] * (len(deltas) - 1)
    assert deltas[0]["role"] == "assistant"
    assert deltas[-1] == {}
    seen = 0
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        if call["index"] == seen:
            seen += 1
            assert call.keys() == {"index", "id", "type", "function"}
            assert call["function"].keys() == {"name", "arguments"}
        else:
            assert call["index"] == seen - 1, "calls come one after another"
            assert call.keys() == {"index", "function"}
            assert call["function"].keys() == {"arguments"}
    assert (reasons[-1] == "tool_calls") <= (seen > 0)


def _as_described(text: dict[str, Any]) -> dict[str, Any]:
    """A text completion with values where OpenAI's API has null and neither its types nor its schema say so: the
    reason of a chunk, the usage of a chunk before the last, and the scores of an echoed prompt's first token."""
    plain = {name: value for name, value in text.items() if name != "usage" or value is not None}
    plain["choices"] = [one | {"finish_reason": one["finish_reason"] or "stop"} for one in text["choices"]]
    for one in plain["choices"]:
        if one["logprobs"] is not None:
            known = {"token_logprobs": 0.0, "top_logprobs": {}}
            filled = {name: [fill if v is None else v for v in one["logprobs"][name]] for name, fill in known.items()}
            one["logprobs"] = one["logprobs"] | filled
    return plain


def _unknown(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from value.model_extra or {}
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _unknown(item)


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    if isinstance(value, dict):
        return {name: _without(item, names) for name, item in value.items() if name not in names}
    return value


@functools.cache
def _components() -> list[dict[str, Any]]:
    found = [json.loads(path.read_bytes()) for path in SCHEMAS if path.is_file()]
    return [_nullable(whole["components"]) for whole in found]


def _check_schema(name: str, body: dict[str, Any]) -> None:
    for components in _components():
        if name in components["schemas"]:
            schema = {"$ref": f"#/components/schemas/{name}", "components": components}
            jsonschema.Draft202012Validator(schema).validate(body)


def _nullable(schema: Any) -> Any:
    """OpenAPI's ``nullable`` in JSON Schema's words. Real streams have null where a schema forgot to allow it."""
    if isinstance(schema, list):
        return [_nullable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _nullable(value) for key, value in schema.items()}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain
