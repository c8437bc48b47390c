"""A device's units: every one is told once, and what is stranded is what no instance can be made in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.fleet.segments import Piece, cut, plain
from scheduler.geometry.boards import boards
from scheduler.geometry.layouts import layouts
from scheduler.packing.fragments import Fragmentation

H100 = "h100-sxm-80gb"


def mig(profile: str, start: int, size: int, key: str = "") -> Piece:
    return Piece(start, size, profile, "slice", key)


def told(pieces: tuple[Piece, ...]) -> list[tuple[str, int, int]]:
    return [(piece.kind, piece.start, piece.size) for piece in pieces]


def test_an_empty_gpu_is_one_free_piece() -> None:
    strip = cut(H100, "mig", ())
    assert told(strip.pieces) == [("free", 0, 8)]
    assert (strip.units, strip.fragmentation) == (8, 0.0)


def test_what_no_instance_can_start_in_is_stranded() -> None:
    """Seven instances of one slice each leave the eighth unit of memory, in which none may start."""
    strip = cut(H100, "mig", [mig("1g.10gb", start, 1) for start in range(7)])
    assert told(strip.pieces)[-1] == ("stranded", 7, 1)
    assert (strip.units_of("slice"), strip.units_of("free"), strip.units_of("stranded")) == (7, 0, 1)


def test_pieces_are_in_order_and_keep_their_keys() -> None:
    strip = cut(H100, "mig", [mig("3g.40gb", 4, 4, "b"), mig("1g.10gb", 1, 1, "a")])
    assert told(strip.pieces) == [("free", 0, 1), ("slice", 1, 1), ("free", 2, 2), ("slice", 4, 4)]
    assert [piece.key for piece in strip.pieces if piece.kind == "slice"] == ["a", "b"]


def test_an_instance_the_table_does_not_know_takes_its_units_and_nothing_is_said_of_fragmentation() -> None:
    strip = cut(H100, "mig", [Piece(0, 1, "1g.10gb+me", "blocked", "0")])
    assert told(strip.pieces)[0] == ("blocked", 0, 1)
    assert strip.units_of("free") + strip.units_of("stranded") == 7
    assert strip.fragmentation is None


def test_a_device_without_a_table_is_cut_at_the_runs_of_its_slices() -> None:
    strip = plain(4, [mig("share", 3, 1, "a"), mig("share", 0, 2, "b")])
    assert told(strip.pieces) == [("slice", 0, 2), ("free", 2, 1), ("slice", 3, 1)]
    assert strip.fragmentation is None


@given(st.data())
def test_every_unit_is_told_once_and_agrees_with_the_packing(data: st.DataObject) -> None:
    """Over any legal state of any board: against the table's own states and the packing's count of stranded units."""
    key = data.draw(st.sampled_from(sorted(boards())))
    name = data.draw(st.sampled_from(["mig", "shares"]))
    table = layouts(key, name)
    state = data.draw(st.sampled_from(table.states))
    members = table.members(state)
    strip = cut(key, name, [mig(table.names[p.profile], p.start, table.profiles[p.profile].size) for p in members])
    units = [unit for piece in strip.pieces for unit in range(piece.start, piece.start + piece.size)]
    assert units == list(range(table.units))
    measure = Fragmentation(table)
    assert strip.units_of("stranded") == measure.stranded(state)
    assert strip.units_of("slice") == table.units - table.free_units(state)
    assert strip.fragmentation == measure.of(state)
