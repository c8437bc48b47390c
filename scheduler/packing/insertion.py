"""Between two re-plans: who is missing gets a seat, who is too many leaves, and nobody else moves. Pure.

In this order: demands that are gone; replicas on GPUs that take nothing new; replicas beyond what is wanted; then
seats for what is guaranteed, before which burst replicas give way, and last for burst.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.packing.assign import Names
from scheduler.packing.compact import Change
from scheduler.packing.model import ENOUGH, Demand, Pending, Seat
from scheduler.packing.online import Placer
from scheduler.packing.preempt import preempt
from scheduler.packing.refusals import why_no_place

_EPS = 1e-6


class Insertion:
    """Changes the placer's books; ``changes`` and ``pending`` say what was done and what was not, and why."""

    def __init__(
        self, placer: Placer, demands: Mapping[str, Demand], *, now: float, pinned: Collection[str] = ()
    ) -> None:
        self.placer, self.books, self.demands = placer, placer.books, demands
        self.now, self.pinned = now, pinned
        self.names = Names(self.books.seats)
        self.changes: list[Change] = []
        self.pending: list[Pending] = []

    def run(self) -> Insertion:
        for seat in [seat for seat in self.books.seats.values() if seat.demand not in self.demands]:
            self._let_go(seat, "its demand is gone")
        for seat in [seat for seat in self.books.seats.values() if not self.books.gpu(seat.gpu).takes_new]:
            self._move_off(seat)
        ranked = sorted(self.demands.values(), key=lambda demand: (-demand.weight, demand.id))
        mine: dict[str, list[Seat]] = {}
        for seat in self.books.seats.values():
            mine.setdefault(seat.demand, []).append(seat)
        for demand in ranked:
            self._shed(demand, mine.get(demand.id, []))
        for guaranteed in (True, False):
            for demand in ranked:
                self._serve(demand, guaranteed)
        return self

    def serve(self, demand: Demand) -> None:
        """Seats for all of one demand, guaranteed and burst."""
        self._serve(demand, True)
        self._serve(demand, False)

    def _let_go(self, seat: Seat, why: str) -> None:
        self.books.take(seat.replica)
        # One that was given a seat and lost it again in the same plan never was.
        for at, change in enumerate(self.changes):
            if change.after is not None and change.after.replica == seat.replica:
                del self.changes[at]
                if change.before is not None:
                    self.changes.append(Change(change.before, None, why))
                return
        self.changes.append(Change(seat, None, why))

    def _move_off(self, seat: Seat) -> None:
        demand = self.demands[seat.demand]
        self.books.take(seat.replica)
        choice = self.placer.find(demand, burst=seat.burst)
        if choice is None:
            reason = f"{seat.replica} should leave {seat.gpu}, which takes nothing new. {self._why_not(demand)}"
            self.books.put(seat)
            self.pending.append(Pending(demand.id, reason))
            return
        after = self.placer.seat(seat.replica, demand, choice, now=self.now, burst=seat.burst)
        self.changes.append(Change(seat, after, f"{seat.gpu} takes nothing new"))

    def _shed(self, demand: Demand, seats: list[Seat]) -> None:
        served = sum(demand.rates.get(seat.slot, 0.0) for seat in seats)
        count = len(seats)
        for seat in sorted(seats, key=lambda one: (demand.rates.get(one.slot, 0.0), -one.since, one.replica)):
            rate = demand.rates.get(seat.slot, 0.0)
            spare = served - rate >= demand.wanted * (1 - _EPS)
            if spare and count > demand.min_replicas and seat.replica not in self.pinned:
                self._let_go(seat, "more than is wanted")
                served, count = served - rate, count - 1

    def _serve(self, demand: Demand, guaranteed: bool) -> None:
        seats = self.books.of(demand.id)
        served = sum(demand.rates.get(seat.slot, 0.0) for seat in seats)
        count = len(seats)
        goal = demand.guaranteed if guaranteed else demand.wanted
        while served < goal * ENOUGH or (guaranteed and count < demand.min_replicas):
            # Sized for all that is wanted: one seat for both is better than one for each.
            seat = self._one_more(demand, max(0.0, demand.wanted - served), burst=not guaranteed)
            if seat is None:
                self.pending.append(Pending(demand.id, self._why_not(demand), max(0.0, goal - served)))
                return
            served, count = served + demand.rates[seat.slot], count + 1

    def _one_more(self, demand: Demand, lacking: float, *, burst: bool) -> Seat | None:
        choice = self.placer.find(demand, self.placer.slots_for(demand, lacking), burst=burst)
        choice = choice or self.placer.find(demand, burst=burst)
        if choice is None and not burst:
            way = preempt(self.books, demand, self.demands)
            if way is not None:
                for victim in way.victims:
                    self._let_go(victim, f"burst gives way to what {demand.id} is guaranteed")
                choice = way.choice
        if choice is None:
            return None
        seat = self.placer.seat(self.names.next(demand.id), demand, choice, now=self.now, burst=burst)
        self.changes.append(Change(None, seat, "burst is wanted" if burst else "guaranteed goodput is missing"))
        return seat

    def _why_not(self, demand: Demand) -> str:
        kept = frozenset(reserve.board for reserve in self.placer.policy.reserves)
        return why_no_place(self.books, demand, kept=kept)
