"""docs/api.md tells every route, and is the one that the committed schema makes."""

from __future__ import annotations

from pathlib import Path

import yaml

from berth.api.reference import render

REPOSITORY = Path(__file__).parents[3]
SCHEMA = yaml.safe_load((REPOSITORY / "platform/berth/api/schema.yaml").read_text("utf-8"))
KNOWN = (REPOSITORY / "docs/api.md").read_text("utf-8")


def test_the_committed_reference_is_what_the_schema_makes() -> None:
    assert render(SCHEMA) == KNOWN, "run manage.py api_reference --file docs/api.md"


def test_every_route_and_every_field_of_a_body_is_told() -> None:
    for path, item in SCHEMA["paths"].items():
        for method in item.keys() - {"parameters"}:
            heading = f"### `{method.upper()} {path.removeprefix('/api/v1')}`"
            assert heading in KNOWN
            told = KNOWN.split(heading + "\n")[1].split("\n### ")[0]
            for parameter in item[method].get("parameters", []):
                assert f"| `{parameter['name']}` | {parameter['in']} |" in told
            content = item[method].get("requestBody", {}).get("content", {})
            for body in content.values():
                name = body["schema"].get("$ref", "").rsplit("/", 1)[-1]
                for field, of in SCHEMA["components"]["schemas"].get(name, {}).get("properties", {}).items():
                    assert of.get("readOnly") or f"| `{field}` |" in told
