"""Why the plan is what it is: one record for each decision of a tick. Pure.

A record names what was asked (``inputs``), every device that was looked at with why it did not fit or how it scored
(``candidates``), what was taken and why, so that a person can follow it when the fleet has long changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["place", "replace", "refuse", "scale", "drain"]
# Of a large fleet the chosen device, those that fit and those with most room are kept.
MOST_CANDIDATES = 24


@dataclass(frozen=True, slots=True)
class Candidate:
    """One device as it was. ``score``: the highest was taken, the first by name among equals; None: does not fit.

    ``slot`` and ``start``: what it would take of a GPU that is cut, in units of that cut.
    """

    device_id: str
    device: str
    node_id: str
    node: str
    fits: bool
    why_not: str
    score: float | None
    score_why: str
    free_bytes: int
    memory_bytes: int
    units_free: int
    units_needed: int
    slot: str = ""
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """``replica`` empty: the plan makes it. ``device`` and ``node`` empty: none was taken."""

    kind: Kind
    deployment: str
    summary: str
    why: str
    replica: str = ""
    node: str = ""
    device: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
