"""Would it fit, where, and with how much goodput? Asked before a deployment is made. Pure; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.packing.books import Books
from scheduler.packing.insertion import Insertion
from scheduler.packing.model import Demand, Fleet, Seat
from scheduler.packing.online import Placer, Policy


@dataclass(frozen=True)
class Outlook:
    """``goodput``: tokens/s that its seats would give. ``displaced``: burst replicas that would give way to it."""

    fits: bool
    seats: tuple[Seat, ...]
    goodput: float
    opens: int
    displaced: tuple[Seat, ...]
    reason: str


def would_fit(
    fleet: Fleet, demand: Demand, others: Iterable[Demand] = (), *, now: float = 0.0, policy: Policy | None = None
) -> Outlook:
    """``others``: the demands whose seats the fleet has; only their burst replicas may give way."""
    books = Books(fleet)
    demands = {other.id: other for other in others} | {demand.id: demand}
    before = dict(books.seats)
    used = {seat.gpu for seat in fleet.seats}
    insertion = Insertion(Placer(books, policy), demands, now=now)
    insertion.serve(demand)
    seats = books.of(demand.id)
    reasons = [pending.reason for pending in insertion.pending]
    return Outlook(
        fits=not reasons,
        seats=seats,
        goodput=sum(demand.rates.get(seat.slot, 0.0) for seat in seats),
        opens=len({seat.gpu for seat in seats} - used),
        displaced=tuple(seat for replica, seat in before.items() if replica not in books.seats),
        reason=reasons[0] if reasons else "",
    )
