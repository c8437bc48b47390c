"""In which order seats change, so that nobody is interrupted: first the new replica, then the old one goes. Pure.

A wave is what may happen at once: starts on units that are free, then, when those are ready, stops of what they
replace. What waits for units that others leave comes in a later wave. Where each waits for the other, one moves over a
seat elsewhere (a reserve GPU is there for that); where there is none, burst is interrupted; where there is no burst,
both stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from scheduler.packing.books import Books
from scheduler.packing.compact import Change, as_good
from scheduler.packing.model import Demand, Seat, Spread
from scheduler.packing.online import Placer, Policy

_INCOMING = "+"


@dataclass(frozen=True, slots=True)
class Start:
    """``instead_of``: the replica that goes once this one is ready; empty: one more."""

    seat: Seat
    instead_of: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    seat: Seat
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wave:
    """``stops`` come once all ``starts`` are ready."""

    starts: tuple[Start, ...]
    stops: tuple[Stop, ...]


@dataclass(frozen=True)
class Order:
    """``dropped``: changes that no order reaches without an interruption; ``detours``: seats only passed through."""

    waves: tuple[Wave, ...]
    dropped: tuple[Change, ...]
    detours: int


def order(
    books: Books,
    demands: Mapping[str, Demand],
    changes: Iterable[Change],
    *,
    policy: Policy | None = None,
    may_interrupt: bool = True,
) -> Order:
    """Waves that lead from ``books``, which end as the last wave leaves them.

    Of one demand one replica at a time moves. A replica that moves keeps its name in ``changes``; while both run, the
    new one's name ends with ``+``. ``may_interrupt`` False: what only an interruption of burst would reach is dropped.
    """
    return _Orderer(books, demands, changes, policy, may_interrupt).result()


@dataclass
class _Orderer:
    books: Books
    demands: Mapping[str, Demand]
    changes: Iterable[Change]
    policy: Policy | None = None
    may_interrupt: bool = True
    waves: list[Wave] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)

    def result(self) -> Order:
        gone = [change for change in self.changes if change.after is None and change.before is not None]
        left = [change for change in self.changes if change.after is not None]
        first = self._stops(gone)
        if first:
            self.waves.append(Wave((), first))
        while left:
            starts, stops, left = self._wave(left)
            if not starts:
                detour = self._detour(left) or (self._interrupt(left) if self.may_interrupt else None)
                if detour is None:
                    break
                wave, left = detour
                self.waves.append(wave)
                continue
            self.waves.append(Wave(starts, stops))
        return Order(tuple(self.waves), tuple(left), len(self.passed))

    def _stops(self, gone: list[Change]) -> tuple[Stop, ...]:
        for change in gone:
            if change.before is not None:
                self.books.take(change.before.replica)
        return tuple(Stop(change.before, change.why) for change in gone if change.before is not None)

    def _wave(self, left: list[Change]) -> tuple[tuple[Start, ...], tuple[Stop, ...], list[Change]]:
        """What can start now, what it replaces, and what is left."""
        started: list[Change] = []
        moving: set[str] = set()
        waiting: list[Change] = []
        for change in left:
            after = change.after
            if after is None:
                continue
            if (change.before is not None and after.demand in moving) or not self._put(change, after):
                waiting.append(change)
                continue
            started.append(change)
            if change.before is not None:
                moving.add(after.demand)
        stops = []
        for change in started:
            if change.before is not None:
                stops.append(Stop(change.before, change.why))
                self._settle(change)
        return tuple(_start(change) for change in started), tuple(stops), waiting

    def _put(self, change: Change, after: Seat) -> bool:
        """Beside what it replaces, which may be near: only for as long as both run."""
        incoming = replace(after, replica=after.replica + _INCOMING) if change.before is not None else after
        spread = self.demands[after.demand].spread if after.demand in self.demands else Spread.NONE
        near = change.before
        if near is not None:
            self.books.take(near.replica)
            apart = not self.books.too_near(after.demand, spread, self.books.gpu(after.gpu))
            self.books.put(near)
        else:
            apart = not self.books.too_near(after.demand, spread, self.books.gpu(after.gpu))
        if not apart or self.books.why_not(incoming, Spread.NONE):
            return False
        self.books.put(incoming)
        return True

    def _settle(self, change: Change) -> None:
        """The old one is gone, the new one takes its name."""
        if change.before is None or change.after is None:
            return
        self.books.take(change.before.replica)
        self.books.take(change.after.replica + _INCOMING)
        self.books.put(change.after)

    def _detour(self, left: list[Change]) -> tuple[Wave, list[Change]] | None:
        """Moves one that stands in another's way to any free seat; from there it goes on as before."""
        placer = Placer(self.books, self.policy)
        for at, change in enumerate(left):
            before = change.before
            if before is None or before.demand not in self.demands or before.replica in self.passed:
                continue  # once: two could send each other to and fro
            if not self._in_the_way(before, left):
                continue
            demand = self.demands[before.demand]
            choice = placer.find(demand, as_good(demand, before.slot), without=frozenset((before.gpu,)))
            if choice is None:
                continue
            passing = replace(before, gpu=choice.gpu, slot=choice.slot, start=choice.start)
            over = Change(before, passing, f"{change.why}; by way of {choice.gpu}, where it is in nobody's way")
            if not self._put(over, passing):
                continue
            self._settle(over)
            self.passed.add(before.replica)
            rest = [*left[:at], replace(change, before=passing), *left[at + 1 :]]
            return Wave((_start(over),), (Stop(before, over.why),)), rest
        return None

    def _interrupt(self, left: list[Change]) -> tuple[Wave, list[Change]] | None:
        """Stops one that is in the way before its successor starts: only burst, which nobody was promised."""
        for at, change in enumerate(left):
            before = change.before
            if before is not None and before.burst and self._in_the_way(before, left):
                self.books.take(before.replica)
                why = f"{change.why}; burst makes way and starts again"
                rest = [*left[:at], Change(None, change.after, change.why), *left[at + 1 :]]
                return Wave((), (Stop(before, why),)), rest
        return None

    def _in_the_way(self, seat: Seat, left: list[Change]) -> bool:
        return any(
            change.after is not None and change.after.gpu == seat.gpu and change.after.replica != seat.replica
            for change in left
        )


def _start(change: Change) -> Start:
    if change.after is None:
        raise ValueError("a change without a seat after it starts nothing")
    return Start(change.after, change.before.replica if change.before is not None else "", change.why)
