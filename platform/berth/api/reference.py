"""The API reference as Markdown, from the committed OpenAPI schema: what ``docs/api.md`` holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
PREFIX = "/api/v1"
INTRODUCTION = """# The management API

Made from `platform/berth/api/schema.yaml` by `manage.py api_reference`; a running house serves the same schema at
`/api/v1/schema`. Paths below start with `/api/v1`. What all resources share (sign-in, pages, `If-Match`,
`Idempotency-Key`, errors) is in [contracts.md](contracts.md); the chat endpoint `/v1` is OpenAI's, with the
additions named there.
"""


def render(schema: Schema) -> str:
    """``schema``: an OpenAPI 3 document. Sections by the first part of the path, in alphabetical order."""
    sections: dict[str, list[str]] = defaultdict(list)
    for path, item in schema["paths"].items():
        short = path.removeprefix(PREFIX)
        for method in METHODS:
            if method in item:
                sections[short.split("/")[1]].append(_operation(schema, method, short, item[method]))
    parts = [f"## {name}\n\n" + "\n".join(operations) for name, operations in sorted(sections.items())]
    return "\n".join([INTRODUCTION, *parts, _objects(schema)])


def _objects(schema: Schema) -> str:
    """What is answered, each object once; pages and bodies are told where they are used."""
    lines = ["## Objects", "", "A `Paginated…List` is `{next, previous, results}` of the object it names.", ""]
    for name, part in schema["components"]["schemas"].items():
        if "properties" in part and not name.startswith(("Paginated", "Patched")) and not name.endswith("Request"):
            lines += [f"### `{name}`", "", "| field | type | |", "|---|---|---|"]
            lines += [
                f"| `{field}` | {_type(schema, of)} | {_cell(of.get('description', ''))} |"
                for field, of in part["properties"].items()
            ]
            lines.append("")
    return "\n".join(lines)


def _operation(schema: Schema, method: str, path: str, operation: Schema) -> str:
    lines = [f"### `{method.upper()} {path}`", ""]
    if description := operation.get("description"):
        lines += [" ".join(description.split()), ""]
    if parameters := [_parameter(schema, each) for each in operation.get("parameters", [])]:
        lines += ["| parameter | in | type | |", "|---|---|---|---|", *parameters, ""]
    body = _content(operation.get("requestBody", {}))
    if body is not None:
        lines += ["Body:", "", *_fields(schema, body), ""]
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = _content(answer)
            lines += [f"Answers {status}" + (f": {_type(schema, content)}" if content else " without a body") + ".", ""]
    return "\n".join(lines)


def _parameter(schema: Schema, parameter: Schema) -> str:
    kind = _type(schema, parameter["schema"])
    return f"| `{parameter['name']}` | {parameter['in']} | {kind} | {_cell(parameter.get('description', ''))} |"


def _content(part: Schema) -> Schema | None:
    for content in part.get("content", {}).values():
        found: Schema | None = content.get("schema")
        return found
    return None


def _fields(schema: Schema, body: Schema) -> list[str]:
    resolved = _resolve(schema, body)
    if "properties" not in resolved:
        return [_type(schema, body)]
    needed = set(resolved.get("required", []))
    rows = []
    for name, field in resolved["properties"].items():
        if not field.get("readOnly"):
            must = "yes" if name in needed else ""
            rows.append(f"| `{name}` | {_type(schema, field)} | {must} | {_cell(field.get('description', ''))} |")
    return ["| field | type | required | |", "|---|---|---|---|", *rows]


def _type(schema: Schema, part: Schema) -> str:
    """A type in a few words: its name where the schema names it, its values where they are few."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        target = _resolve(schema, part)
        return _values(target) if "enum" in target else f"`{name}`"
    for joint in ("allOf", "oneOf", "anyOf"):
        if joint in part:
            return " or ".join(dict.fromkeys(_type(schema, each) for each in part[joint]))
    if "enum" in part:
        return _values(part)
    if part.get("type") == "array":
        return f"list of {_type(schema, part['items'])}"
    return " ".join(_words(part))


def _words(part: Schema) -> Iterator[str]:
    yield str(part.get("format") or part.get("type") or "anything")
    if "minimum" in part or "maximum" in part:
        yield f"{part.get('minimum', '')}..{part.get('maximum', '')}"
    if part.get("nullable"):
        yield "or null"


def _values(part: Schema) -> str:
    return ", ".join(f"`{value}`" for value in part["enum"] if value not in ("", None))


def _resolve(schema: Schema, part: Schema) -> Schema:
    while "$ref" in part:
        target: Schema = schema["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]
        part = target
    return part


def _cell(text: str) -> str:
    """Only the first paragraph, and no list of values: those stand in the type."""
    first = text.split("\n\n", maxsplit=1)[0]
    return "" if first.startswith("* `") else " ".join(first.split()).replace("|", "\\|")
