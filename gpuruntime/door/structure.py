"""What ``response_format``, vLLM's ``structured_outputs`` and a forced tool call ask of an answer, as one grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from llguidance import LLMatcher

from gpuruntime.openai_api import BadBody, ChatBody, NamedTool, SamplingBody

MAX_GRAMMAR_BYTES = 256 << 10
# Whitespace without end is JSON too, and what a model that has lost its thread writes until max_tokens.
_JSON = {"whitespace_pattern": r"[ \n\t]{0,64}"}


def asked_grammar(body: SamplingBody, tools: Sequence[dict[str, Any]] = ()) -> str | None:
    """llguidance's; None where the answer is free. Raises ``BadBody`` naming the field that does not compile."""
    found: list[tuple[str, str]] = []
    if isinstance(body, ChatBody):
        if body.response_format is not None:
            found += _of_format(body.response_format)
        if body.tool_choice == "required" or isinstance(body.tool_choice, NamedTool):
            found.append(("tool_choice", _json("tool_choice", _calls(tools))))
    if body.structured_outputs is not None:
        found += _of_structure(body.structured_outputs)
    if len(found) > 1:
        names = " and ".join(f"'{field}'" for field, _ in found)
        raise BadBody(f"Invalid '{found[1][0]}': an answer cannot follow {names} at once.", found[1][0])
    for field, grammar in found:
        _check(field, grammar)
        return grammar
    return None


def _of_format(wanted: dict[str, Any]) -> list[tuple[str, str]]:
    kind, field = wanted.get("type"), "response_format.json_schema.schema"
    if kind == "json_object":
        return [("response_format", _json("response_format", {"type": "object"}))]
    if kind == "json_schema":
        return [(field, _json(field, wanted["json_schema"].get("schema", {})))]
    return []


def _of_structure(wanted: dict[str, Any]) -> list[tuple[str, str]]:
    name, value = next(iter(wanted.items()))
    field = f"structured_outputs.{name}"
    if name == "regex":
        return [(field, LLMatcher.grammar_from_regex(value))]
    if name == "choice":
        choices = " | ".join(msgspec.json.encode(one).decode() for one in value)
        return [(field, LLMatcher.grammar_from_lark(f"start: {choices}"))]
    if name == "grammar":
        return [(field, LLMatcher.grammar_from_lark(value))]
    return [(field, _json(field, value if name == "json" else {"type": "object"}))]


def _calls(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One call of one of the tools, as the bare object that every format has at its heart."""
    kinds, definitions = [], {}
    for index, tool in enumerate(tools):
        root = f"#/$defs/{index}"
        definitions[str(index)] = _rooted(tool["function"].get("parameters") or {"type": "object"}, root)
        properties = {"name": {"const": tool["function"]["name"]}, "arguments": {"$ref": root}}
        kinds.append(
            {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        )
    return {"anyOf": kinds, "$defs": definitions}


def _rooted(schema: Any, root: str) -> Any:
    """A schema whose own references still hold where it stands at ``root`` of another."""
    if isinstance(schema, list):
        return [_rooted(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: root + value[1:] if key == "$ref" and isinstance(value, str) and value[:1] == "#" else _rooted(value, root)
        for key, value in schema.items()
    }


def _json(field: str, schema: Any) -> str:
    text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
    try:
        return LLMatcher.grammar_from_json_schema(text, overrides=_JSON)  # type: ignore[arg-type]
    except ValueError as error:
        raise BadBody(f"Invalid '{field}': {error}.", field) from error


def _check(field: str, grammar: str) -> None:
    if len(grammar) > MAX_GRAMMAR_BYTES:
        raise BadBody(f"Invalid '{field}': {len(grammar)} bytes; at most {MAX_GRAMMAR_BYTES} are allowed.", field)
    wrong, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    if wrong:
        raise BadBody(f"Invalid '{field}': {' '.join(messages).strip()}", field)
