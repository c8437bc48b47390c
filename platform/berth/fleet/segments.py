"""A device's units from the first to the last: which are taken, free, stranded, or nobody's to use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from scheduler.geometry.boards import CutName
from scheduler.geometry.layouts import layouts
from scheduler.packing.fragments import Fragmentation

SegmentKind = Literal["slice", "blocked", "stranded", "free"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What lies on units ``start`` to ``start + size - 1``. ``key``: by which the caller knows it again."""

    start: int
    size: int
    profile: str
    kind: SegmentKind = "slice"
    key: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """``pieces`` cover every unit once, in order. ``fragmentation``: None where no table of geometry applies."""

    units: int
    pieces: tuple[Piece, ...]
    fragmentation: float | None

    def units_of(self, kind: SegmentKind) -> int:
        return sum(piece.size for piece in self.pieces if piece.kind == kind)


def plain(units: int, pieces: Iterable[Piece]) -> Strip:
    """Of a device that no table knows: what nobody has is free."""
    return Strip(units, tuple(_filled(units, sorted(pieces, key=lambda piece: piece.start), 0)), None)


def cut(board_key: str, name: CutName, pieces: Iterable[Piece]) -> Strip:
    """Of a GPU of a known type. Stranded: free units in which no instance can be made any more."""
    table = layouts(board_key, name)
    ordered = sorted(pieces, key=lambda piece: piece.start)
    reach, fragmentation = _left(board_key, name, tuple((one.profile, one.start, one.size) for one in ordered))
    return Strip(table.units, tuple(_filled(table.units, ordered, ~reach)), fragmentation)


def _filled(units: int, pieces: Sequence[Piece], stranded: int) -> Iterable[Piece]:
    """``pieces`` with what lies between them; ``stranded``: one bit a unit that nothing new can use."""
    at = 0
    for piece in (*pieces, Piece(units, 0, "")):
        start, end = min(piece.start, units), min(piece.start + piece.size, units)
        while at < start:
            lost = stranded >> at & 1
            first = at
            while at < start and stranded >> at & 1 == lost:
                at += 1
            yield Piece(first, at - first, "", "stranded" if lost else "free")
        if end > at:
            yield Piece(at, end - at, piece.profile, piece.kind, piece.key)
            at = end


@cache
def _left(board_key: str, name: CutName, taken: tuple[tuple[str, int, int], ...]) -> tuple[int, float | None]:
    """The units that a further instance could use, one bit each, and how fragmented the GPU is.

    Another tool may have made instances that the table has no place for: they take their units, and nothing is said of
    fragmentation.
    """
    table = layouts(board_key, name)
    state, occupied, known = 0, 0, True
    for profile, start, size in taken:
        occupied |= ((1 << size) - 1) << start
        try:
            state |= 1 << table.placement(profile, start).index
        except LookupError:
            known = False
    reach = 0
    for placement in table.additions(state):
        if not placement.units & occupied:
            reach |= placement.units
    known = known and state in _states(board_key, name)
    return reach, _measure(board_key, name).of(state) if known else None


@cache
def _states(board_key: str, name: CutName) -> frozenset[int]:
    return frozenset(layouts(board_key, name).states)


@cache
def _measure(board_key: str, name: CutName) -> Fragmentation:
    return Fragmentation(layouts(board_key, name))
