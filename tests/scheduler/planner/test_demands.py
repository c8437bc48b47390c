"""What contracts ask, as the packing takes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.fleets import A30, H100, demand, mig, mps, whole
from scheduler.packing.model import Isolation, Need
from scheduler.packing.needs import ReplicaProfile, rates
from scheduler.planner.demands import Asked, policy_of
from scheduler.planner.demands import demand as demand_of

PROFILE = ReplicaProfile(Need(16 * 10**9, 10**9, 10**9), 2 * 10**8, tpot_s=0.05)
ASKED = Asked("dep_1", "m", "ten_1", Isolation.MIG, 2, 500.0, 100.0, PROFILE, weight=3.0)


def test_a_demand_is_what_was_asked_with_the_rates_of_the_boards_that_are_there() -> None:
    found = demand_of(ASKED, [H100, A30])
    assert (found.id, found.trust, found.guaranteed, found.burst) == ("dep_1", "ten_1", 500.0, 100.0)
    assert (found.min_replicas, found.weight, found.isolation) == (2, 3.0, Isolation.MIG)
    assert found.rates == rates(PROFILE, Isolation.MIG, [H100, A30])
    assert {slot.board for slot in demand_of(ASKED, [A30]).rates} == {A30}


def test_what_was_measured_wins_and_equal_profiles_share_a_table() -> None:
    measured = replace(ASKED, profile=replace(PROFILE, measured={mig("2g.20gb"): 77.0}))
    assert demand_of(measured, [H100]).rates[mig("2g.20gb")] == 77.0
    assert demand_of(ASKED, [H100]).rates is demand_of(replace(ASKED, id="dep_2"), [H100]).rates
    assert demand_of(measured, [H100]).rates is not demand_of(ASKED, [H100]).rates


@pytest.mark.parametrize(("burst", "left"), [(0.0, 0.0), (10_000.0, None)])
def test_without_a_promise_it_still_asks_for_its_replicas(burst: float, left: float | None) -> None:
    found = demand_of(replace(ASKED, guaranteed=0.0, burst=burst), [H100])
    assert found.guaranteed == 2 * min(found.rates.values())
    assert found.burst == (burst - found.guaranteed if left is None else left)


def test_what_fits_nowhere_has_no_rates() -> None:
    huge = replace(ASKED, guaranteed=0.0, profile=replace(PROFILE, need=Need(10**12, 0, 0)))
    assert demand_of(huge, [H100]).rates == {}
    assert demand_of(huge, [H100]).guaranteed == 0.0


def test_the_mix_is_what_each_needs_least_of_a_gpu_for() -> None:
    rates_ = {mig("1g.10gb"): 100.0, mig("3g.40gb"): 400.0, whole(): 800.0, mps(2): 900.0}
    small = [demand(f"s{n}", rates_, 90.0) for n in range(3)]
    large = demand("l", rates_, 800.0)  # eight of 1g or two of 3g: both are a GPU
    policy = policy_of([*small, large])
    assert policy.mix[H100]["1g.10gb"] >= 0.75
    assert sum(policy.mix[H100].values()) == pytest.approx(1.0, abs=0.05)
    assert policy_of([]).mix == {}
