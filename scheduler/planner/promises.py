"""Who is guaranteed a replica and finds no room waits for somebody to leave: for whom, and where. Pure.

First for those that are going anyway; where that is not enough burst replicas are let go, those that lose the least
goodput. Looked at anew from the seats alone, the same comes out: while those that go are still there, nobody else is
asked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.packing.books import Books
from scheduler.packing.model import ENOUGH, Demand, Seat
from scheduler.packing.online import Choice, Policy
from scheduler.packing.preempt import preempt
from scheduler.planner.cuts import Cuts, Shape, shape_of
from scheduler.planner.fleet import GOING


@dataclass(frozen=True)
class Ask:
    """One more replica of ``demand``, of which ``served`` tokens/s by ``count`` replicas have their seats.

    ``missing``: how many are asked for, this one among them.
    """

    demand: Demand
    served: float
    count: int
    missing: int = 1


@dataclass(frozen=True)
class Promises:
    """``seats``: by the ask's number, where it will sit. ``victims``: burst replica -> the demand it gives way to."""

    seats: Mapping[int, Seat]
    victims: Mapping[str, str]

    def in_the_way(self, books: Books, seat: Seat) -> tuple[str, ...]:
        """Who must leave ``seat``'s GPU before."""
        there = books.on(seat.gpu)
        return tuple(sorted(one.replica for one in there if one.demand == GOING or one.replica in self.victims))


def is_burst(demand: Demand, served: float, count: int) -> bool:
    """Whether one replica more is beyond what is guaranteed."""
    return count >= demand.min_replicas and served >= demand.guaranteed * ENOUGH


def promise(books: Books, asks: Sequence[Ask], demands: Mapping[str, Demand], policy: Policy) -> Promises:
    """``books`` are not changed."""
    leaving = any(seat.demand == GOING for seat in books.seats.values())
    if not asks or not (leaving or any(seat.burst for seat in books.seats.values())):
        return Promises({}, {})
    victims: dict[str, str] = {}
    while True:
        known = len(victims)
        seats = _round(books, asks, demands, policy, victims)
        if len(victims) == known:  # nobody else had to go: asked again, the same comes out
            return Promises(seats, victims)


def _round(
    books: Books, asks: Sequence[Ask], demands: Mapping[str, Demand], policy: Policy, victims: dict[str, str]
) -> dict[int, Seat]:
    kept = (s for s in books.seats.values() if s.demand != GOING and s.replica not in victims)
    soon = Books(replace(books.fleet, seats=tuple(kept)))
    cuts = Cuts(soon, {}, policy)
    hopeless: set[Shape] = set()
    seats: dict[int, Seat] = {}
    more: dict[str, tuple[float, int]] = {}
    for number, ask in enumerate(asks):
        demand = ask.demand
        extra, count = more.get(demand.id, (0.0, 0))
        if is_burst(demand, ask.served + extra, ask.count + count):
            continue
        choice = _choice(cuts, ask, extra, demands=demands, victims=victims, hopeless=hopeless)
        if choice is not None:
            seats[number] = cuts.put(f"?{number}", demand, choice, burst=False, now=0.0)
            more[demand.id] = extra + demand.rates[choice.slot], count + 1
    return seats


def _choice(
    cuts: Cuts,
    ask: Ask,
    extra: float,
    *,
    demands: Mapping[str, Demand],
    victims: dict[str, str],
    hopeless: set[Shape],
) -> Choice | None:
    """``hopeless``: kinds of newcomers for whom nobody can be asked to go."""
    demand = ask.demand
    lacking = max(0.0, demand.wanted - ask.served - extra) / max(1, ask.missing)
    found = cuts.find(demand, cuts.sized(demand, lacking), lacking)
    if found is not None:
        return found[0]
    if shape_of(demand) in hopeless:
        return None
    way = preempt(cuts.books, demand, demands)
    if way is None:
        if not cuts.books.of(demand.id):
            hopeless.add(shape_of(demand))
        return None
    for victim in way.victims:
        cuts.take(victim.replica)
        victims[victim.replica] = demand.id
    hopeless.clear()
    return way.choice
