"""What each of the driver's XIDs means for a GPU's health, read from ``xids.json``, which names the sources. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal["application", "contained", "gpu", "link", "driver"]
_TABLE = Path(__file__).with_name("xids.json")


class Severity(IntEnum):
    """How far a fault takes a GPU out of use; the greatest of all decides."""

    NONE = 0
    WATCH = 1
    DRAIN = 2
    FENCE = 3


@dataclass(frozen=True, slots=True)
class Xid:
    """``nvidia``: NVIDIA's bucket of immediate action; ``evidence``: tags of the table's sources."""

    code: int
    kind: Kind
    severity: Severity
    meaning: str
    todo: str
    nvidia: str
    evidence: str
    note: str = ""


@cache
def xids() -> Mapping[int, Xid]:
    """Every code that is known."""
    table = _read()
    found = {}
    for row in table["xids"]:
        for code in row["codes"]:
            found[code] = Xid(
                code=code,
                kind=row["kind"],
                severity=Severity[row["severity"].upper()],
                meaning=row["meaning"],
                todo=table["actions"][row["do"]],
                nvidia=row["nvidia"],
                evidence=row["evidence"],
                note=row.get("note", ""),
            )
    return MappingProxyType(found)


def xid(code: int) -> Xid | None:
    """None: in no table; it changes nothing by itself."""
    return xids().get(code)


@cache
def todo(action: str) -> str:
    """The sentence of one of the table's actions."""
    return str(_read()["actions"][action])


@cache
def _read() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_text())
    return table
