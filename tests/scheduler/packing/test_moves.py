"""Who stays, in which order the others move, and when moving is worth it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from helpers.fleets import H100, broken_rules, demand, fleet, mig, mps, seat, whole
from scheduler.geometry.layouts import layouts
from scheduler.packing.assign import assign, transport
from scheduler.packing.books import Books
from scheduler.packing.compact import Change, compact
from scheduler.packing.model import Demand, Fleet, Isolation, Seat
from scheduler.packing.moves import order
from scheduler.packing.offers import Market, Prices
from scheduler.packing.online import Placer
from scheduler.packing.plans import Rules, current_mixes, with_bursts
from scheduler.packing.replan import replan
from scheduler.packing.solve import solve

ONE = {mig("1g.10gb"): 1.0}


def named(names: str, rates: dict[object, float] | None = None, **changes: object) -> dict[str, Demand]:
    return {name: demand(name, rates or ONE, **changes) for name in names}  # type: ignore[arg-type]


# --- who stays ----------------------------------------------------------------------------------------------------


def test_a_fleet_that_is_as_it_should_be_is_left_alone() -> None:
    demands = named("abcdefg")
    seats = [seat(f"{name}/0", "g2", mig("1g.10gb"), start) for start, name in enumerate(demands)]
    where = fleet(4, seats=seats)
    target = solve(Market(where, demands.values(), Prices()), current=current_mixes(where))
    assert set(assign(where, demands, target).seats) == set(seats)


def test_the_gpu_that_keeps_most_is_the_one_that_stays_in_use() -> None:
    demands = named("abcdefg")
    starts = {
        "a": ("g0", 0),
        "b": ("g1", 0),
        "c": ("g1", 1),
        "d": ("g1", 2),
        "e": ("g2", 5),
        "f": ("g2", 6),
        "g": ("g3", 0),
    }
    where = fleet(4, seats=[seat(f"{n}/0", gpu, mig("1g.10gb"), start) for n, (gpu, start) in starts.items()])
    target = solve(Market(where, demands.values(), Prices()))
    found = assign(where, demands, target)
    assert {one.gpu for one in found.seats} == {"g1"}
    assert len(set(found.seats) & set(where.seats)) == 3


def test_patterns_go_where_the_sum_is_largest() -> None:
    values = [[3.0, 1.0, 2.0], [4.0, 6.0, 5.0], [2.0, 1.0, 2.5]]
    best = max(sum(values[g][u] for g, u in enumerate(order_)) for order_ in permutations(range(3)))
    pairs = [(g, u, value) for g, row in enumerate(values) for u, value in enumerate(row)]
    assert sum(values[g][u] for g, u in transport(pairs, 3, [1, 1, 1])) == best


def test_siblings_get_gpus_of_their_own_by_swapping() -> None:
    demands = named("a", wanted=2.0) | named("bcdefgh")
    target = solve(Market(fleet(3), demands.values(), Prices()))
    found = assign(fleet(3), demands, target)
    assert found.pending == ()
    assert broken_rules(fleet(3), found.seats, demands) == []


# --- in which order -----------------------------------------------------------------------------------------------


def test_the_new_one_is_ready_before_the_old_one_goes() -> None:
    before = seat("a/0", "g0", mig("1g.10gb"), 6)
    after = replace(before, gpu="g1")
    books = Books(fleet(2, seats=[before]))
    found = order(books, named("a"), [Change(before, after)])
    (wave,) = found.waves
    assert [start.seat for start in wave.starts] == [after]
    assert [stop.seat for stop in wave.stops] == [before]
    assert books.seats["a/0"] == after


def test_what_waits_for_anothers_units_comes_in_a_later_wave() -> None:
    a, b = seat("a/0", "g0", whole()), seat("b/0", "g1", mig("3g.40gb"), 4)
    changes = [Change(b, replace(b, gpu="g0")), Change(a, replace(a, gpu="g2"))]
    found = order(Books(fleet(3, seats=[a, b])), named("ab", {whole(): 1.0, mig("3g.40gb"): 1.0}), changes)
    assert [[start.seat.replica for start in wave.starts] for wave in found.waves] == [["a/0"], ["b/0"]]


def swapped() -> tuple[list[Seat], list[Change]]:
    a, b = seat("a/0", "g0", mig("4g.40gb"), 0), seat("b/0", "g1", mig("4g.40gb"), 0)
    return [a, b], [Change(a, replace(a, gpu="g1")), Change(b, replace(b, gpu="g0"))]


def test_two_that_wait_for_each_other_pass_through_the_reserve() -> None:
    seats, changes = swapped()
    books = Books(fleet(3, seats=seats))
    found = order(books, named("ab", {mig("4g.40gb"): 1.0}), changes)
    assert (found.detours, found.dropped) == (1, ())
    assert {one.replica: one.gpu for one in books.seats.values()} == {"a/0": "g1", "b/0": "g0"}


def test_without_a_reserve_both_stay() -> None:
    seats, changes = swapped()
    books = Books(fleet(2, seats=seats))
    found = order(books, named("ab", {mig("4g.40gb"): 1.0}), changes)
    assert found.waves == ()
    assert set(found.dropped) == set(changes)
    assert set(books.seats.values()) == set(seats)


def test_without_a_reserve_burst_makes_way() -> None:
    (a, b), _ = swapped()
    b = replace(b, burst=True)
    changes = [Change(a, replace(a, gpu="g1")), Change(b, replace(b, gpu="g0"))]
    books = Books(fleet(2, seats=[a, b]))
    found = order(books, named("ab", {mig("4g.40gb"): 1.0}), changes)
    assert [[stop.seat.replica for stop in wave.stops] for wave in found.waves] == [["b/0"], ["a/0"], []]
    assert {one.replica: one.gpu for one in books.seats.values()} == {"a/0": "g1", "b/0": "g0"}


def test_of_one_demand_one_replica_moves_at_a_time() -> None:
    seats = [seat(f"a/{n}", f"g{n}", mig("1g.10gb"), 6) for n in range(3)]
    changes = [Change(one, replace(one, gpu=f"g{n + 3}")) for n, one in enumerate(seats)]
    found = order(Books(fleet(6, seats=seats)), named("a", wanted=3.0), changes)
    assert [len(wave.starts) for wave in found.waves] == [1, 1, 1]


# --- emptying GPUs ------------------------------------------------------------------------------------------------


def test_a_gpu_with_one_replica_is_emptied_onto_another() -> None:
    seats = [seat("a/0", "g0", mig("1g.10gb"), 6), seat("b/0", "g1", mig("3g.40gb"), 4)]
    demands = {"a": demand("a", ONE), "b": demand("b", {mig("3g.40gb"): 1.0})}
    placer = Placer(Books(fleet(2, seats=seats)))
    (bundle,) = compact(placer, demands, budget=4)
    assert len(bundle.changes) == 1
    assert placer.books.active[H100] == 1


def test_room_is_made_for_a_large_one_by_moving_small_ones() -> None:
    seats = [
        *(seat("a/0", "g0", mig("3g.40gb"), 0), seat("b/0", "g1", mig("1g.10gb"), 2)),
        *(
            seat("c/0", "g1", mig("1g.20gb"), 6),
            seat("d/0", "g2", mig("4g.40gb"), 0),
            seat("e/0", "g2", mig("1g.10gb"), 4),
        ),
    ]
    demands = {one.demand: demand(one.demand, {one.slot: 1.0}) for one in seats}
    placer = Placer(Books(fleet(3, seats=seats)))
    found = compact(placer, demands, budget=4)
    assert placer.books.active[H100] == 2
    assert broken_rules(fleet(3), placer.books.seats.values(), demands) == []
    assert sum(len(bundle.changes) for bundle in found) <= 4


def test_who_is_pinned_or_beyond_the_budget_stays() -> None:
    seats = [seat("a/0", "g0", mig("1g.10gb"), 6), seat("b/0", "g1", mig("1g.10gb"), 6)]
    where = fleet(2, seats=seats)
    for options in ({"budget": 0}, {"budget": 4, "pinned": {"a/0", "b/0"}}):
        placer = Placer(Books(where))
        assert compact(placer, named("ab"), **options) == []  # type: ignore[arg-type]
        assert placer.books.snapshot().seats == where.seats


# --- is it worth it -----------------------------------------------------------------------------------------------


def scattered(since: float = 0.0) -> tuple[Fleet, list[Demand]]:
    """Seven replicas on seven GPUs, which fit on one."""
    names = "abcdefg"
    seats = [seat(f"{name}/0", f"g{n}", mig("1g.10gb"), 6, since=since) for n, name in enumerate(names)]
    return fleet(8, seats=seats), list(named(names).values())


def test_a_plan_that_pays_is_taken_and_says_what_it_gains() -> None:
    where, demands = scattered()
    plan = replan(where, demands, now=10_000.0)
    assert (plan.objective, len(plan.order.dropped)) == (1.0, 0)
    assert "GPU-s" in plan.why
    assert {one.kind for one in plan.candidates} == {"insert", "compact", "exact"}
    assert plan.gap == pytest.approx(plan.objective / plan.bound - 1)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (Rules(horizon_s=2.0), "moves cost"),
        (Rules(budget=0), "the budget is 0"),
        (Rules(dwell_s=20_000.0), "younger than 20000 s"),
        (Rules(least_gain=0.99), "less than 99 %"),
    ],
)
def test_a_plan_that_does_not_pay_is_refused_with_the_reason(rules: Rules, reason: str) -> None:
    where, demands = scattered()
    plan = replan(where, demands, now=10_000.0, rules=rules)
    assert plan.kind == "nothing"
    assert set(plan.seats) == set(where.seats)
    assert any(reason in one.why_not for one in plan.candidates)


def test_a_suspect_gpu_is_emptied_however_young_its_replicas_are() -> None:
    where, demands = scattered(since=9_999.0)
    gpus = tuple(replace(gpu, takes_new=gpu.id != "g3") for gpu in where.gpus)
    plan = replan(replace(where, gpus=gpus), demands, now=10_000.0)
    assert "g3" not in {one.gpu for one in plan.seats}
    moved = [change.before.replica for change in plan.changes if change.before]
    assert moved == ["d/0"]


def test_what_cannot_fit_waits_with_the_reason_and_the_rest_is_planned() -> None:
    demands = [demand("big", {whole(): 1.0}, 3.0), *named("ab").values()]
    plan = replan(fleet(2), demands, now=0.0)
    assert plan.pending
    assert all("None of 2 GPUs has a place" in one.reason for one in plan.pending)
    assert "big" in {one.demand for one in plan.seats}
    assert len({one.gpu for one in plan.seats}) == 2


def test_a_guarantee_that_would_wait_is_worth_any_move() -> None:
    # Two halves stand on two GPUs; a whole GPU is asked for, and the horizon is too short to pay for a move.
    rates = {mig("3g.40gb"): 1.0}
    seats = [seat(f"{name}/0", f"g{n}", mig("3g.40gb"), 4) for n, name in enumerate("ab")]
    demands = [*named("ab", rates).values(), demand("c", {whole(): 1.0})]
    plan = replan(fleet(2, seats=seats), demands, now=10_000.0, rules=Rules(horizon_s=1.0))
    assert {one.demand for one in plan.seats} == {"a", "b", "c"}


def test_the_oldest_are_guaranteed_and_the_rest_is_burst() -> None:
    one = demand("a", ONE, guaranteed=1.5, burst=2.0)
    seats = [seat(f"a/{n}", f"g{n}", mig("1g.10gb"), 6, since=float(n)) for n in range(3)]
    assert [each.burst for each in with_bursts(seats, {"a": one})] == [False, False, True]


def test_a_share_is_never_moved_to_strangers() -> None:
    rates = {mps(2): 1.0}
    demands = {n: demand(n, rates, trust=f"t{n}", isolation=Isolation.MPS) for n in "ab"}
    seats = [seat(f"{n}/0", f"g{at}", mps(2), 0, trust=f"t{n}") for at, n in enumerate("ab")]
    plan = replan(fleet(3, seats=seats), demands.values(), now=10_000.0)
    assert len({one.gpu for one in plan.seats}) == 2
    assert layouts(H100, "shares").units == 8
