"""The plan by numbers against an exhaustive search on small fleets, and its bound against any plan."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.common import exhaustive
from helpers.fleets import A30, H100, demand, fleet, mig, mps, whole
from scheduler.geometry.layouts import layouts
from scheduler.packing.model import ENOUGH, Demand, Isolation, Spread
from scheduler.packing.offers import Market, Prices
from scheduler.packing.ratio import most_per_gpu
from scheduler.packing.solve import Target, solve

DEMANDS = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(exhaustive.KINDS)), min_size=1, max_size=4).map(
    lambda rows: [exhaustive.a_demand(f"d{n}", rates, wanted / 4) for n, (wanted, rates) in enumerate(rows)]
)


@settings(deadline=None, max_examples=40)
@given(DEMANDS)
def test_small_fleets_get_the_optimum_of_an_exhaustive_search(demands: list[Demand]) -> None:
    best = exhaustive.fewest_gpus(demands)
    found = solve(Market(fleet(24, key=A30), demands, Prices()))
    assert found.lost == 0
    assert found.bound <= best + 1e-6
    assert best <= found.gpus <= max(best + 1, 1.03 * best)
    assert found.gpus - best <= (0 if len(demands) < 3 else 1)


def holds(target: Target, demands: list[Demand]) -> None:
    """Every slot that is used is given by a pattern, and every demand is served as it says."""
    used: Counter[object] = Counter()
    for mix in target.slots.values():
        for offer, count in mix.items():
            used[offer.slot] += count
    given_: Counter[object] = Counter()
    for group, patterns in target.patterns.items():
        table = layouts(group.board, "mig")
        for pattern, count in patterns.items():
            for name, n in zip(table.names, pattern, strict=True):
                given_[mig(name, group.board)] += n * count
    for slot, count in used.items():
        if slot.kind is Isolation.MIG:  # type: ignore[attr-defined]
            assert count <= given_[slot]
    for one in demands:
        served = sum(one.rates[offer.slot] * n for offer, n in target.slots[one.id].items())
        assert served >= one.wanted * ENOUGH


@pytest.mark.parametrize("count", [1, 2, 7])
def test_no_plan_has_a_part_of_a_gpu(count: int) -> None:
    """A seventh of a GPU each: the bound is of one that is there, not of sevenths."""
    demands = [demand(f"d{n}", {mig("1g.10gb"): 1.0}, 1.0) for n in range(count)]
    found = solve(Market(fleet(8), demands, Prices()))
    assert (found.gpus, found.gap) == (1, pytest.approx(0.0, abs=1e-6))


def test_shares_of_one_tenant_are_packed_together_and_of_two_apart() -> None:
    rates = {mps(2): 2.0, mps(4): 1.0, whole(): 4.0}
    ours = [demand(f"a{n}", rates, 1.0, trust="a", isolation=Isolation.MPS) for n in range(4)]
    theirs = [demand(f"b{n}", rates, 1.0, trust="b", isolation=Isolation.MPS) for n in range(2)]
    assert solve(Market(fleet(8), ours, Prices())).gpus == 1
    both = solve(Market(fleet(8), ours + theirs, Prices()))
    assert both.gpus == 2
    assert {key[2]: n for key, n in both.shared.items()} == {"a": 1, "b": 1}


def test_one_unit_of_memory_more_on_the_last_slice_is_used() -> None:
    # Six 1g and one double-memory 1g are one GPU, six and two are not.
    small = [demand(f"s{n}", {mig("1g.10gb"): 1.0}) for n in range(6)]
    double = [demand(f"d{n}", {mig("1g.20gb"): 1.0}) for n in range(2)]
    one = solve(Market(fleet(4), small + double[:1], Prices()))
    assert one.gpus == 1
    holds(one, small + double[:1])
    assert solve(Market(fleet(4), small + double, Prices())).gpus == 2


def test_replicas_that_must_be_apart_need_as_many_gpus() -> None:
    apart = demand("d", {mig("1g.10gb"): 1.0}, 5.0)
    assert solve(Market(fleet(8), [apart], Prices())).gpus == 5
    together = demand("d", {mig("1g.10gb"): 1.0}, 5.0, spread=Spread.NONE)
    assert solve(Market(fleet(8), [together], Prices())).gpus == 1
    found = solve(Market(fleet(16, a_node=8), [demand("d", {whole(): 1.0}, 3.0, spread=Spread.NODE)], Prices()))
    assert found.slots["d"] == {} or sum(found.slots["d"].values()) <= 2


def test_what_is_guaranteed_comes_before_burst_where_not_all_fits() -> None:
    cheap = demand("cheap", {whole(): 100.0}, guaranteed=0.0, burst=200.0)
    dear = demand("dear", {whole(): 1.0}, 2.0)
    found = solve(Market(fleet(3), [cheap, dear], Prices()))
    assert {name: sum(mix.values()) for name, mix in found.slots.items()} == {"cheap": 1, "dear": 2}


def test_two_types_of_gpus_are_weighed_by_their_prices() -> None:
    both = fleet(4)
    both = type(both)((*both.gpus, *(type(both.gpus[0])(f"a{n}", A30, "m", "r") for n in range(4))))
    one = demand("d", {whole(): 4.0, whole(A30): 1.0}, 4.0)
    small = solve(Market(both, [one], Prices({H100: 5.0, A30: 1.0})))
    assert [(g.board, n) for g, n in small.whole.items()] == [(A30, 4)]
    large = solve(Market(both, [one], Prices({H100: 3.0, A30: 1.0})))
    assert [(g.board, n) for g, n in large.whole.items()] == [(H100, 1)]


def test_burst_that_earns_less_a_gpu_than_the_rest_is_left_when_the_ratio_counts() -> None:
    good = demand("good", {whole(): 10.0}, 20.0)
    poor = demand("poor", {whole(): 1.0}, guaranteed=1.0, burst=3.0)
    all_of_it = solve(Market(fleet(8), [good, poor], Prices()))
    assert all_of_it.gpus == 6
    best = most_per_gpu(fleet(8), [good, poor])
    assert best.target.gpus == 3
    assert best.per_gpu == pytest.approx(21 / 3)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000))
def test_sixty_demands_stay_within_three_per_cent_of_the_bound(seed: int) -> None:
    chance = random.Random(seed)
    names = layouts(H100, "mig").names
    demands = []
    for n in range(60):
        size = chance.randrange(4)
        rates = {mig(name): (i + 1) * 1.0 for i, name in enumerate(names) if i >= size} | {whole(): 7.0}
        demands.append(demand(f"d{n}", rates, chance.uniform(0.3, 9.0)))
    found = solve(Market(fleet(120), demands, Prices()))
    holds(found, demands)
    assert found.gpus - found.bound <= max(1.0, 0.03 * found.bound)
