"""The world as the packing sees it."""

from __future__ import annotations

from dataclasses import replace

from helpers.cut_worlds import gpu, gpu_node, sitting
from helpers.fleets import demand, mig, mps
from helpers.worlds import NOW, node
from scheduler.packing.model import Isolation, Spread
from scheduler.planner.fleet import GOING, books_of, fleet_of, going

ONE = {mig("1g.10gb"): 1.0}


def test_only_gpus_that_are_cut_are_in_it_with_their_domains() -> None:
    where = fleet_of([node("a"), gpu_node("n", 2, domain="rack-1"), gpu_node("m")], [], NOW)
    assert [(one.id, one.node, one.domain, one.takes_new) for one in where.gpus] == [
        ("n-0", "n", "rack-1", True),
        ("n-1", "n", "rack-1", True),
        ("m-0", "m", "m", True),
    ]


def test_a_plan_leaves_out_who_is_going_and_where_nothing_new_may_be() -> None:
    nodes = [
        gpu_node("n"),
        gpu_node("d", draining=True),
        replace(gpu_node("u"), devices=(gpu("u-0", unfit="it is failing", leaving=True),)),
    ]
    rows = [
        sitting("stays", "n-0", mig("1g.10gb"), 0),
        sitting("drains", "n-0", mig("1g.10gb"), 1, run=False),
        sitting("moves", "d-0", mig("1g.10gb"), 0),
        sitting("flees", "u-0", mig("1g.10gb"), 0),
    ]
    assert going(nodes, rows) == {"drains", "moves", "flees"}
    where = fleet_of(nodes, rows, NOW, frozenset({("n", "m")}))
    assert [seat.replica for seat in where.seats] == ["stays"]
    assert [one.takes_new for one in where.gpus] == [True, False, False]
    assert where.cached == {("n", "m")}


def test_who_is_going_keeps_its_units_and_nobody_has_to_keep_away() -> None:
    rows = [sitting("r0", "n-0", mig("1g.10gb"), 0), sitting("r1", "n-0", mig("1g.10gb"), 1, run=False)]
    books, _ = books_of([gpu_node("n")], rows, NOW, demands={"d": demand("d", ONE)}, leaving={"r0"})
    assert {seat.demand for seat in books.seats.values()} == {GOING}
    assert books.room("n-0").state.bit_count() == 2
    assert not books.too_near("d", Spread.GPU, books.gpu("n-0"))


def test_who_is_burst_follows_from_what_is_guaranteed_now_and_who_serves() -> None:
    rows = [
        sitting("old", "n-0", mig("1g.10gb"), 0, state="loading", created_at=1),
        sitting("new", "n-0", mig("1g.10gb"), 1, created_at=2),
        sitting("newer", "n-0", mig("1g.10gb"), 2, created_at=3, burst=True),
    ]
    needs = {"d": demand("d", ONE, guaranteed=2.0, spread=Spread.NONE)}
    books, _ = books_of([gpu_node("n")], rows, NOW, demands=needs)
    assert {name: seat.burst for name, seat in books.seats.items()} == {"old": True, "new": False, "newer": False}
    assert {seat.since for seat in books.seats.values()} == {1, 2, 3}
    moving = [*rows, sitting("next", "n-0", mig("1g.10gb"), 4, created_at=4, replaces="old", state="loading")]
    books, _ = books_of([gpu_node("n")], moving, NOW, demands=needs)
    assert not books.seats["old"].burst  # who is replaced gives way to nobody
    assert not books.seats["next"].burst


def test_what_no_table_allows_closes_the_gpu_with_the_reason() -> None:
    rows = [
        sitting("r0", "n-0", mig("3g.40gb"), 4, trust="x"),
        sitting("r1", "n-0", mig("1g.10gb"), 5, trust="x"),
        sitting("r2", "m-0", mps(2), 0, trust="x"),
        sitting("r3", "m-0", mps(2), 4, trust="y"),
        sitting("r4", "o-0", mig("1g.11gb"), 0),
        sitting("r5", "p-0", mig("1g.10gb"), 0),
    ]
    books, closed = books_of([gpu_node(name) for name in "nmop"], rows, NOW)
    assert set(closed) == {"n-0", "m-0", "o-0"}
    assert closed["n-0"] == "r1 sits where no table allows it to be"
    assert [gpu.takes_new for gpu in books.gpus] == [False, False, False, True]
    assert set(books.seats) == {"r0", "r2", "r5"}


def test_blocked_instances_take_their_units() -> None:
    blocked = replace(gpu_node("n"), devices=(gpu("n-0", blocked=(("1g.10gb", 0), ("2g.20gb", 2))),))
    books, closed = books_of([blocked], [], NOW)
    assert closed == {}
    assert books.room("n-0").kind is Isolation.MIG
    assert books.room("n-0").unused
