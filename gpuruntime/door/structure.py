"""What ``response_format``, vLLM's ``structured_outputs`` and a forced tool call ask of an answer, as one grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from llguidance import LLMatcher

from gpuruntime.openai_api import BadBody, ChatBody, NamedTool, SamplingBody

MAX_GRAMMAR_BYTES = 256 << 10
# Whitespace without end is JSON too, and what a model that has lost its thread writes until max_tokens.
_JSON = {"whitespace_pattern": r"[ \n\t]{0,64}"}


class Grammar(NamedTuple):
    """llguidance's, and the field that asked for it."""

    field: str
    text: str

    def check(self) -> None:
        """Compiles it, which may take half a second and lets other threads run. Raises ``BadBody``."""
        wrong, messages = LLMatcher.validate_grammar_with_warnings(self.text)
        if wrong:
            raise BadBody(f"Invalid '{self.field}': {' '.join(messages).strip()}", self.field)


def asked_grammar(body: SamplingBody, tools: Sequence[dict[str, Any]] = ()) -> Grammar | None:
    """None where the answer is free. Raises ``BadBody`` for what is too large, or more than one thing at once."""
    found: list[Grammar] = []
    if isinstance(body, ChatBody):
        if body.response_format is not None:
            found += _of_format(body.response_format)
        if body.tool_choice == "required" or isinstance(body.tool_choice, NamedTool):
            found.append(_json("tool_choice", _calls(tools)))
    if body.structured_outputs is not None:
        found.append(_of_structure(body.structured_outputs))
    if len(found) > 1:
        names = " and ".join(f"'{grammar.field}'" for grammar in found)
        raise BadBody(f"Invalid '{found[1].field}': an answer cannot follow {names} at once.", found[1].field)
    for field, text in found:
        if len(text) > MAX_GRAMMAR_BYTES:
            raise BadBody(f"Invalid '{field}': {len(text)} bytes; at most {MAX_GRAMMAR_BYTES} are allowed.", field)
    return found[0] if found else None


def _of_format(wanted: dict[str, Any]) -> list[Grammar]:
    kind = wanted.get("type")
    if kind == "json_object":
        return [_json("response_format", {"type": "object"})]
    if kind == "json_schema":
        return [_json("response_format.json_schema.schema", wanted["json_schema"].get("schema", {}))]
    return []


def _of_structure(wanted: dict[str, Any]) -> Grammar:
    name, value = next(iter(wanted.items()))
    field = f"structured_outputs.{name}"
    if name == "regex":
        return Grammar(field, LLMatcher.grammar_from_regex(value))
    if name == "choice":
        choices = " | ".join(msgspec.json.encode(one).decode() for one in value)
        return Grammar(field, LLMatcher.grammar_from_lark(f"start: {choices}"))
    if name == "grammar":
        return Grammar(field, LLMatcher.grammar_from_lark(value))
    return _json(field, value if name == "json" else {"type": "object"})


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


def _json(field: str, schema: Any) -> Grammar:
    text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
    try:
        return Grammar(field, LLMatcher.grammar_from_json_schema(text, overrides=_JSON))  # type: ignore[arg-type]
    except ValueError as error:
        raise BadBody(f"Invalid '{field}': {error}.", field) from error
