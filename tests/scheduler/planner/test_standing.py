"""Who sits on GPUs that take nothing new stays there, and the plan is for the rest."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from helpers.fleets import broken_rules, demand, fleet, mig, seat
from scheduler.packing.model import Fleet
from scheduler.packing.plans import Rules
from scheduler.packing.replan import replan
from scheduler.planner.standing import besides

ONE, TWO = mig("1g.10gb"), mig("2g.20gb")


def closed(whole: Fleet, *names: str) -> Fleet:
    gpus = tuple(replace(gpu, takes_new=gpu.id not in names) for gpu in whole.gpus)
    return replace(whole, gpus=gpus)


def test_what_stands_is_taken_off_what_is_asked_for() -> None:
    sitting = [seat("a/1", "g0", ONE), seat("a/2", "g1", ONE), seat("b/1", "g0", ONE, 1)]
    demands = {
        "a": demand("a", {ONE: 10.0}, 25.0, burst=10.0, min_replicas=3),
        "b": demand("b", {ONE: 10.0}, 10.0),
    }
    rest = besides(closed(fleet(2, seats=sitting), "g0"), demands)
    assert [gpu.id for gpu in rest.fleet.gpus] == ["g1"]
    assert [one.replica for one in rest.fleet.seats] == ["a/2"]
    assert {one.replica for one in rest.standing} == {"a/1", "b/1"}
    assert list(rest.demands) == ["a"], "all of b is served where it stands"
    left = rest.demands["a"]
    assert (left.guaranteed, left.burst, left.min_replicas) == (15.0, 10.0, 2)


def test_served_beyond_the_guarantee_counts_as_burst() -> None:
    demands = {"a": demand("a", {ONE: 10.0}, 4.0, burst=20.0)}
    rest = besides(closed(fleet(2, seats=[seat("a/1", "g0", ONE)]), "g0"), demands)
    left = rest.demands["a"]
    assert (left.guaranteed, left.burst, left.min_replicas) == (0.0, 14.0, 1)


def test_a_demand_that_is_gone_stands_until_it_is_let_go() -> None:
    rest = besides(closed(fleet(2, seats=[seat("a/1", "g0", ONE)]), "g0"), {})
    assert [one.replica for one in rest.standing] == ["a/1"]
    assert rest.demands == {}


@given(st.data())
def test_a_plan_for_the_rest_moves_nobody_who_stands_and_breaks_no_rule(data: st.DataObject) -> None:
    names = [f"d{n}" for n in range(data.draw(st.integers(1, 5)))]
    demands = {name: demand(name, {ONE: 10.0, TWO: 22.0}, float(data.draw(st.integers(5, 60)))) for name in names}
    sitting = [seat(f"{name}/1", f"g{data.draw(st.integers(0, 3))}", ONE, start) for start, name in enumerate(names)]
    whole = closed(fleet(6, seats=sitting), "g0", "g1")
    rest = besides(whole, demands)
    plan = replan(rest.fleet, rest.demands.values(), now=5000.0, rules=Rules(time_limit_s=1.0))
    seats = (*plan.seats, *rest.standing)
    assert {one.replica for one in sitting if one.gpu in ("g0", "g1")} == {one.replica for one in rest.standing}
    assert all(one.gpu not in ("g0", "g1") for one in plan.seats)
    assert broken_rules(whole, seats, demands) == []
