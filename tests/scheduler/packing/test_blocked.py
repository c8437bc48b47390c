"""Instances that nobody can remove take their units, and a plan by numbers leaves such GPUs as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.fleets import H100, demand, fleet, mig, mps, seat, whole
from scheduler.packing.assign import assign
from scheduler.packing.books import Books
from scheduler.packing.compact import compact
from scheduler.packing.insertion import Insertion
from scheduler.packing.model import Fleet, Gpu
from scheduler.packing.offers import Market, Prices, beside_blocked, rest_of
from scheduler.packing.online import Placer
from scheduler.packing.plans import Rules
from scheduler.packing.preempt import preempt
from scheduler.packing.refusals import why_no_place
from scheduler.packing.replan import replan
from scheduler.packing.solve import solve

ONE = {mig("1g.10gb"): 1.0}


def half_blocked(count: int, *, blocked: int = 1, **changes: object) -> Fleet:
    """The first ``blocked`` of ``count`` GPUs have their lower half taken by nobody."""
    where = fleet(count, **changes)  # type: ignore[arg-type]
    gpus = [replace(gpu, blocked=(("4g.40gb", 0),)) for gpu in where.gpus[:blocked]]
    return replace(where, gpus=(*gpus, *where.gpus[blocked:]))


def test_its_units_are_taken_whoever_comes_and_goes() -> None:
    books = Books(half_blocked(1))
    assert books.room("g0").unused
    assert books.active[H100] == 0
    assert "not free" in books.why_not(seat("a/0", "g0", mig("1g.10gb"), 3), 0)  # type: ignore[arg-type]
    books.put(seat("a/0", "g0", mig("1g.10gb"), 6))
    assert (books.room("g0").unused, books.active[H100]) == (False, 1)
    books.take("a/0")
    assert "is mig, not whole" in books.why_not(seat("b/0", "g0", whole()), 0)  # type: ignore[arg-type]
    with pytest.raises(LookupError):
        Books(Fleet((Gpu("g", H100, "n", "r", blocked=(("4g.40gb", 0), ("1g.10gb", 2))),)))


def test_it_is_opened_after_those_in_use_and_before_those_that_are_whole() -> None:
    one = demand("b", ONE)
    in_use = half_blocked(3, seats=[seat("a/0", "g1", mig("1g.10gb"), 6)])
    found = Placer(Books(in_use)).find(one)
    assert found is not None
    assert (found.gpu, found.opens) == ("g1", False)
    found = Placer(Books(half_blocked(3))).find(one)
    assert found is not None
    assert (found.gpu, found.opens) == ("g0", True)
    assert Placer(Books(half_blocked(3))).find(demand("c", {whole(): 1.0})).gpu == "g1"  # type: ignore[union-attr]


def test_burst_gives_way_beside_it_and_never_it_itself() -> None:
    beyond = seat("a/0", "g0", mig("3g.40gb"), 4, burst=True)
    books = Books(half_blocked(1, seats=[beyond]))
    others = {"a": demand("a", {mig("3g.40gb"): 1.0}, guaranteed=0.0, burst=1.0)}
    found = preempt(books, demand("b", {mig("2g.20gb"): 1.0}), others)
    assert found is not None
    assert found.choice.start == 4
    assert preempt(books, demand("b", {whole(): 1.0}), others) is None
    assert preempt(books, demand("b", {mig("4g.40gb"): 1.0}), others) is None
    assert preempt(books, demand("b", {mps(2): 1.0}, isolation=0), others) is None
    assert why_no_place(books, demand("b", {whole(): 1.0})).endswith("1 hold instances that cannot be removed")


def test_nobody_is_moved_onto_one_that_is_not_in_use_to_empty_another() -> None:
    where = half_blocked(2, seats=[seat("a/0", "g1", mig("1g.10gb"), 6)])
    assert compact(Placer(Books(where)), {"a": demand("a", ONE)}, budget=4) == []


def test_the_exact_plan_leaves_who_sits_beside_it_and_packs_the_rest() -> None:
    names = "abcdefg"
    seats = [seat(f"{name}/0", f"g{n}", mig("1g.10gb"), 6) for n, name in enumerate(names)]
    where = half_blocked(9, seats=seats)
    demands = {name: demand(name, ONE) for name in names}
    plan = replan(where, demands.values(), now=10_000.0, rules=Rules(budget=20))
    exact = next(one for one in plan.candidates if one.kind == "exact")
    assert exact.gpus == 2
    assert plan.bound <= plan.objective
    assert plan.inputs["gpus_left_as_they_are"] == 1
    left, worth = rest_of(Market(where, demands.values(), Prices()), beside_blocked(where, demands))
    found = assign(where, demands, solve(Market(where, left, Prices(), worth)))
    assert seats[0] in found.seats
    assert len(found.seats) == len(names)


def test_what_is_served_beside_it_is_not_planned_for_again() -> None:
    seats = [seat("a/0", "g0", mig("1g.10gb"), 6), seat("b/0", "g0", mig("1g.10gb"), 5)]
    where = half_blocked(4, seats=seats)
    demands = {"a": demand("a", ONE, 3.0), "b": demand("b", ONE), "c": demand("c", ONE)}
    fixed = beside_blocked(where, demands)
    market = Market(where, demands.values(), Prices())
    left, worth = rest_of(market, fixed)
    assert {one.id: (one.guaranteed, one.min_replicas) for one in left} == {"a": (2.0, 0), "c": (1.0, 1)}
    found = solve(Market(where, left, Prices(), worth))
    assert {name: sum(mix.values()) for name, mix in found.slots.items()} == {"a": 2, "c": 1}


def test_a_gpu_that_is_blocked_and_suspect_is_left() -> None:
    where = half_blocked(2, seats=[seat("a/0", "g0", mig("1g.10gb"), 6)])
    where = replace(where, gpus=(replace(where.gpus[0], takes_new=False), where.gpus[1]))
    done = Insertion(Placer(Books(where)), {"a": demand("a", ONE)}, now=0.0).run()
    assert [one.gpu for one in done.books.seats.values()] == ["g1"]
    plan = replan(where, [demand("a", ONE)], now=10_000.0)
    assert [one.gpu for one in plan.seats] == ["g1"]
