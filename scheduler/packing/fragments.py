"""How broken a GPU is, and what it costs to put one more instance there. Pure, from tables.

F(state) = sum over profiles p of w_p · (ideal_p(free units) - feasible_p(state)) / ideal_p(free units)

feasible_p: how many more of p could be made; ideal_p: the most that any state with as many free units could take; w:
the mix of what is asked for. 0: as good as its free units can be; 1: nothing that is asked for fits. After
Zambianco et al. (arXiv 2511.18906) and Weng et al. (USENIX ATC '23), with states in place of sizes.

The cost of an instance adds what moves fragmentation alone does not see: a GPU that holds much stays in use anyway,
and one that is nearly full is worth filling. Weights were found on the churn traces of benchmarks/packing.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from scheduler.geometry.layouts import Counts, Layouts, Placement

GROWTH, LONELY, ROOMY = 0.3, 1.0, 0.3
OPENED = 2.0  # more than any GPU in use can cost
OPENED_FOR_SHARES = 3.0  # only one trust domain can use what is left of it


class Fragmentation:
    """Of the states of one cut, for a mix of profiles by name (need not sum to 1; empty: all alike)."""

    def __init__(self, table: Layouts, mix: Mapping[str, float] | None = None) -> None:
        self.table = table
        asked = [(mix or {}).get(name, 0.0) for name in table.names]
        total = sum(asked)
        count = len(table.names)
        self.weights = tuple(one / total for one in asked) if total > 0 else (1 / count,) * count
        self._of: dict[int, float] = {}
        self._best: dict[tuple[int, str], tuple[float, Placement] | None] = {}

    def of(self, state: int) -> float:
        """F of one GPU, between 0 and 1."""
        if state not in self._of:
            ideal, can = ideals(self.table)[self.table.free_units(state)], feasible(self.table)[state]
            self._of[state] = sum(
                weight * (most - some) / most
                for weight, most, some in zip(self.weights, ideal, can, strict=True)
                if most
            )
        return self._of[state]

    def stranded(self, state: int) -> int:
        """Free units in which no profile of the mix can be made any more."""
        reach = 0
        for placement in self.table.additions(state):
            if self.weights[placement.profile] > 0:
                reach |= placement.units
        free = ((1 << self.table.units) - 1) & ~self.table.occupied(state)
        return (free & ~reach).bit_count()

    def best(self, state: int, profile: str) -> tuple[float, Placement] | None:
        """The cheapest start for one more ``profile`` and its cost; None where there is no room."""
        key = state, profile
        if key not in self._best:
            self._best[key] = self._look(state, profile)
        return self._best[key]

    def _look(self, state: int, profile: str) -> tuple[float, Placement] | None:
        found: tuple[float, int, Placement] | None = None
        for placement in self.table.additions(state):
            if self.table.names[placement.profile] != profile:
                continue
            # Among equals the highest start: the low ones are the only home of the largest profiles.
            ranked = (self._cost(state, placement), -placement.start, placement)
            if found is None or ranked[:2] < found[:2]:
                found = ranked
        return (found[0], found[2]) if found is not None else None

    def _cost(self, state: int, placement: Placement) -> float:
        after = state | 1 << placement.index
        growth = GROWTH * (self.of(after) - self.of(state))
        roomy = ROOMY * self.table.free_units(after) / self.table.units
        if state == 0:
            return growth + roomy + (OPENED_FOR_SHARES if self.table.cut.name == "shares" else OPENED)
        return growth + roomy + LONELY / (state.bit_count() + 1)


@cache
def feasible(table: Layouts) -> dict[int, Counts]:
    """How many more instances of each profile could be made in each state, alone."""
    found: dict[int, Counts] = {}
    for state in sorted(table.states, key=int.bit_count, reverse=True):  # what follows from a state comes first
        most = [0] * len(table.names)
        for placement in table.additions(state):
            after = found[state | 1 << placement.index][placement.profile]
            most[placement.profile] = max(most[placement.profile], 1 + after)
        found[state] = tuple(most)
    return found


@cache
def ideals(table: Layouts) -> dict[int, Counts]:
    """By the number of free units: the most of each profile that any state with so many could still take."""
    found: dict[int, Counts] = {}
    for state in table.states:
        free = table.free_units(state)
        found[free] = tuple(map(max, found.get(free, (0,) * len(table.names)), feasible(table)[state]))
    return found
