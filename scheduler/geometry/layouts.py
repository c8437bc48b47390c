"""The legal states of a cut GPU, the moves between them, and the patterns that waste nothing. Pure.

A placement is a profile at a legal start. A state is a set of placements that can exist together, kept as an integer
with one bit a placement; 0 is the empty GPU. Instances never share a unit, a profile is never there more often than
the board allows, together they never have more optical-flow engines than the board, and a profile that tolerates only
some variants has no others beside it. Every subset of a state is a state, so a walk from one to another that first
removes and then adds is always legal.

    pattern   how often each profile is there, where nothing more of any profile could be: every state's counts are at
              most some pattern's, so that a plan need look at patterns only
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from scheduler.geometry.boards import Cut, CutName, Profile, board

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """``index``: its bit in a state. ``units``: the units it takes, one bit each."""

    index: int
    profile: int
    start: int
    units: int


@dataclass(frozen=True, slots=True)
class Step:
    """One instance that is made or removed."""

    kind: str  # "create" | "destroy"
    profile: str
    start: int
    size: int


class Layouts:
    """All states of ``cut`` with the profiles ``names``; by default those that serve language models.

    Enumerated once and kept: a board of 18 placements has 723 states.
    """

    def __init__(self, cut: Cut, names: Iterable[str] | None = None) -> None:
        wanted = tuple(cut.serving() if names is None else names)
        self.cut = cut
        self.units = cut.units
        self.profiles: tuple[Profile, ...] = tuple(cut.profile(name) for name in wanted)
        self.names = tuple(profile.name for profile in self.profiles)
        self.placements: tuple[Placement, ...] = tuple(self._placements())
        self._additions_of: dict[int, tuple[Placement, ...]] = {}
        self._occupied_by: dict[int, int] = {}
        self._at = {(self.names[p.profile], p.start): p for p in self.placements}
        self._conflicts = tuple(self._conflicts_of(p) for p in self.placements)

    def _placements(self) -> Iterator[Placement]:
        index = 0
        for number, profile in enumerate(self.profiles):
            for start in profile.starts:
                yield Placement(index, number, start, ((1 << profile.size) - 1) << start)
                index += 1

    def _conflicts_of(self, one: Placement) -> int:
        """The placements that cannot be beside ``one``, itself among them."""
        found = 0
        for other in self.placements:
            clash = one.units & other.units or not self._tolerate(one, other)
            found |= (1 << other.index) if clash else 0
        return found

    def _tolerate(self, one: Placement, other: Placement) -> bool:
        first, second = self.profiles[one.profile], self.profiles[other.profile]
        return (not first.only_beside or second.variant in first.only_beside) and (
            not second.only_beside or first.variant in second.only_beside
        )

    # --- one state ------------------------------------------------------------------------------------------------

    def placement(self, profile: str, start: int) -> Placement:
        """Raises ``LookupError`` where the profile does not exist or may not begin there."""
        try:
            return self._at[profile, start]
        except KeyError:
            starts = [p.start for p in self.placements if self.names[p.profile] == profile]
            legal = f"it may start at {starts}" if starts else f"profiles are {', '.join(self.names)}"
            raise LookupError(f"no instance {profile!r} at {start}: {legal}") from None

    def state_of(self, instances: Iterable[tuple[str, int]]) -> int:
        """The state of instances (profile, start). Raises ``LookupError`` when they cannot exist together."""
        state = 0
        for profile, start in instances:
            placement = self.placement(profile, start)
            if not self.can_add(state, placement):
                raise LookupError(f"{profile} at {start} cannot be beside {self.describe(state) or 'nothing'}")
            state |= 1 << placement.index
        return state

    def members(self, state: int) -> tuple[Placement, ...]:
        return tuple(p for p in self.placements if state >> p.index & 1)

    def describe(self, state: int) -> str:
        """As ``3g.40gb@4 1g.10gb@0``: the largest first."""
        found = sorted(self.members(state), key=lambda p: (-self.profiles[p.profile].size, p.start))
        return " ".join(f"{self.names[p.profile]}@{p.start}" for p in found)

    def counts(self, state: int) -> Counts:
        found = [0] * len(self.profiles)
        for placement in self.members(state):
            found[placement.profile] += 1
        return tuple(found)

    def occupied(self, state: int) -> int:
        """The units that are taken, one bit each."""
        found = self._occupied_by.get(state)
        if found is None:
            found = self._occupied_by[state] = sum(p.units for p in self.members(state))
        return found

    def free_units(self, state: int) -> int:
        return self.units - self.occupied(state).bit_count()

    def can_add(self, state: int, placement: Placement) -> bool:
        if state & self._conflicts[placement.index]:
            return False
        profile = self.profiles[placement.profile]
        same, ofas = 1, profile.ofas
        for other in self.members(state):
            same += other.profile == placement.profile
            ofas += self.profiles[other.profile].ofas
        return same <= profile.max_instances and (self.cut.ofas == 0 or ofas <= self.cut.ofas)

    def additions(self, state: int) -> tuple[Placement, ...]:
        """Every instance that could be made now."""
        found = self._additions_of.get(state)
        if found is None:
            found = tuple(p for p in self.placements if self.can_add(state, p))
            self._additions_of[state] = found
        return found

    def moves(self, state: int) -> Iterator[tuple[Step, int]]:
        """Every single step and the state it leads to."""
        for placement in self.members(state):
            yield self._step("destroy", placement), state & ~(1 << placement.index)
        for placement in self.additions(state):
            yield self._step("create", placement), state | 1 << placement.index

    def path(self, before: int, after: int) -> tuple[Step, ...]:
        """From one state to another, keeping what both have: first what goes, then what comes."""
        gone = [self._step("destroy", p) for p in self.members(before & ~after)]
        return (*gone, *(self._step("create", p) for p in self.members(after & ~before)))

    def _step(self, kind: str, placement: Placement) -> Step:
        profile = self.profiles[placement.profile]
        return Step(kind, profile.name, placement.start, profile.size)

    # --- all states -----------------------------------------------------------------------------------------------

    @cached_property
    def states(self) -> tuple[int, ...]:
        """Every legal state, the empty one included."""
        found: list[int] = []
        todo = [(0, 0)]
        while todo:
            state, first = todo.pop()
            found.append(state)
            for placement in self.placements[first:]:
                if self.can_add(state, placement):
                    todo.append((state | 1 << placement.index, placement.index + 1))
        return tuple(sorted(found))

    @cached_property
    def maximal_states(self) -> tuple[int, ...]:
        """States to which nothing can be added."""
        return tuple(state for state in self.states if not self.additions(state))

    @cached_property
    def vectors(self) -> tuple[Counts, ...]:
        """Every feasible count of profiles."""
        return tuple(sorted({self.counts(state) for state in self.states}))

    @cached_property
    def patterns(self) -> tuple[Counts, ...]:
        """The feasible counts that no other feasible count contains, the most instances first."""
        found = [
            one
            for one in self.vectors
            if not any(one != other and all(a <= b for a, b in zip(one, other, strict=True)) for other in self.vectors)
        ]
        return tuple(sorted(found, reverse=True))

    @cached_property
    def layouts_of(self) -> dict[Counts, tuple[int, ...]]:
        """Where the instances of a pattern can lie: pattern -> states."""
        wanted = set(self.patterns)
        found: dict[Counts, list[int]] = {pattern: [] for pattern in self.patterns}
        for state in self.states:
            counts = self.counts(state)
            if counts in wanted:
                found[counts].append(state)
        return {pattern: tuple(states) for pattern, states in found.items()}


@cache
def layouts(board_key: str, cut: CutName) -> Layouts:
    """The states of a board's cut with the profiles that serve language models, enumerated once a process."""
    return Layouts(board(board_key).cut(cut))
