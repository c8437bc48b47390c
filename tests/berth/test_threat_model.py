"""THREAT_MODEL.md says what it says: every threat has a mitigation and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "THREAT_MODEL.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (T\d+) \| (.+) \|$", re.MULTILINE)


@cache
def names_in(path: str) -> frozenset[str]:
    """Of a file, by its source: nothing is imported."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name[:5] == "test_")


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(TEXT)
    assert len(named) > 60
    missing = [f"{path}::{name}" for path, name in named if not (ROOT / path).is_file() or name not in names_in(path)]
    assert missing == []


def test_every_threat_has_an_actor_a_mitigation_and_a_test() -> None:
    rows = ROW.findall(TEXT)
    assert [number for number, _ in rows] == [f"T{at}" for at in range(1, len(rows) + 1)]
    known = re.findall(r"^\| \*\*(.+?)\*\* \|", TEXT, re.MULTILINE)
    for number, row in rows:
        actor, threat, mitigation, proof = row.split(" | ")
        assert set(actor.split(", ")) <= set(known), (number, actor)
        assert threat
        assert mitigation
        assert NAMED.search(proof), number
