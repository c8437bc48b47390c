from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from scheduler.geometry.layouts import layouts
from scheduler.packing.fragments import OPENED, Fragmentation, feasible

TABLE = layouts("h100-sxm-80gb", "mig")


@cache
def most(state: int, profile: int) -> int:
    """By trying every start in every order."""
    tries = [p for p in TABLE.placements if p.profile == profile and not p.units & TABLE.occupied(state)]
    return max((1 + most(state | 1 << p.index, profile) for p in tries if TABLE.can_add(state, p)), default=0)


def test_what_could_still_be_made_is_counted_right() -> None:
    found = feasible(TABLE)
    for state in TABLE.states[::7]:
        assert found[state] == tuple(most(state, n) for n in range(len(TABLE.names)))


def test_fragmentation_is_a_part_and_none_where_nothing_is_taken_or_free() -> None:
    frag = Fragmentation(TABLE, {"1g.10gb": 3, "4g.40gb": 1})
    assert all(0 <= frag.of(state) <= 1 for state in TABLE.states)
    assert frag.of(0) == 0
    assert frag.of(TABLE.state_of([("7g.80gb", 0)])) == 0


def test_a_small_instance_in_the_only_home_of_a_large_one_fragments_more() -> None:
    frag = Fragmentation(TABLE, {"1g.10gb": 1, "4g.40gb": 1})
    low, high = TABLE.state_of([("1g.10gb", 0)]), TABLE.state_of([("1g.10gb", 6)])
    assert frag.of(low) > frag.of(high)
    found = frag.best(0, "1g.10gb")
    assert found is not None
    assert found[1].start >= 4


def test_an_eighth_unit_that_only_large_instances_reach_is_stranded() -> None:
    frag = Fragmentation(TABLE, {"1g.10gb": 1})
    seven = TABLE.state_of([("1g.10gb", n) for n in range(7)])
    assert frag.stranded(seven) == 1
    assert Fragmentation(TABLE).stranded(TABLE.state_of([("1g.20gb", 6), ("3g.40gb", 0)])) == 0


def test_opening_a_gpu_costs_more_than_any_seat_on_one_in_use() -> None:
    frag = Fragmentation(TABLE)
    costs = [found[0] for state in TABLE.states if state for name in TABLE.names if (found := frag.best(state, name))]
    opening = [found[0] for name in TABLE.names if (found := frag.best(0, name))]
    assert max(costs) < OPENED <= min(opening)


@pytest.mark.parametrize("profile", TABLE.names)
def test_what_fills_a_gpu_up_is_cheaper_the_fuller_it_was(profile: str) -> None:
    frag = Fragmentation(TABLE)
    alike = [(0,), (0, 1), (0, 1, 2)]
    states = [TABLE.state_of([("1g.10gb", start) for start in starts]) for starts in alike]
    costs = [found[0] for state in states if (found := frag.best(state, profile))]
    assert all(later <= earlier + 0.1 for earlier, later in pairwise(costs))
