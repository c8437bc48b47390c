"""Who sits where, kept while a plan is made: the one place that says whether a seat is legal.

A GPU is empty, or it has a kind (whole, MIG, MPS, time-slices) until its last seat goes, and one with blocked
instances is MIG for good; shares belong to one trust domain. Its state says which units are taken. GPUs that look
alike to a newcomer are kept together, so that a decision looks at groups of GPUs, not at GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.geometry.layouts import Layouts, Placement, layouts
from scheduler.packing.model import Fleet, Gpu, Isolation, Seat, Slot, Spread


class Illegal(ValueError):
    """The seat cannot be: its units are taken, the GPU is cut otherwise, or replicas would be too near."""


class Room(NamedTuple):
    """What a newcomer sees of a GPU. ``kind`` None: empty. ``trust``: whose shares these are, else empty.

    ``blocked``: those of ``state`` that are nobody's seat and stay; a GPU that has some is MIG for good.
    """

    board: str
    kinds: frozenset[Isolation]
    kind: Isolation | None
    trust: str
    state: int
    blocked: int = 0

    @property
    def unused(self) -> bool:
        """Nobody sits there."""
        return self.state == self.blocked


@dataclass(slots=True)
class _Taken:
    """What one GPU holds."""

    gpu: Gpu
    number: int
    room: Room
    seats: dict[str, Seat]


class Books:
    """Seats of ``fleet``; ``put`` and ``take`` change them. ``buckets``: GPUs by their room.

    Raises ``Illegal`` for a seat, and ``LookupError`` for blocked instances, that cannot be. ``odd``: takes the seats
    that cannot be instead, for who looks at a world that somebody else made.
    """

    def __init__(self, fleet: Fleet, odd: list[Seat] | None = None) -> None:
        self.fleet = fleet
        self.seats: dict[str, Seat] = {}
        self.buckets: dict[Room, set[int]] = {}
        self.gpus = fleet.gpus
        self._taken: dict[str, _Taken] = {}
        self._of: dict[str, dict[str, Seat]] = {}
        self._near: dict[str, Counter[tuple[Spread, str]]] = {}
        self.active: Counter[str] = Counter()
        for number, gpu in enumerate(fleet.gpus):
            self._taken[gpu.id] = _Taken(gpu, number, _room_without_seats(gpu), {})
        for seat in fleet.seats:
            try:
                self._sit(seat, self._checked(seat, Spread.NONE))
            except (Illegal, LookupError):
                if odd is None:
                    raise
                odd.append(seat)
        for taken in self._taken.values():
            if taken.gpu.takes_new:
                self.buckets.setdefault(taken.room, set()).add(taken.number)

    # --- looking --------------------------------------------------------------------------------------------------

    def room(self, gpu: str) -> Room:
        return self._taken[gpu].room

    def on(self, gpu: str) -> tuple[Seat, ...]:
        return tuple(self._taken[gpu].seats.values())

    def gpu(self, gpu: str) -> Gpu:
        return self._taken[gpu].gpu

    def of(self, demand: str) -> tuple[Seat, ...]:
        return tuple(self._of.get(demand, {}).values())

    def too_near(self, demand: str, spread: Spread, gpu: Gpu) -> bool:
        """Whether a replica of ``demand`` sits where ``spread`` allows no second."""
        return spread is not Spread.NONE and self.neighbours(demand, spread, gpu) > 0

    def neighbours(self, demand: str, spread: Spread, gpu: Gpu) -> int:
        """How many replicas of ``demand`` share ``gpu``, its node or its fault domain."""
        mine = self._of.get(demand)
        if not mine:
            return 0
        near = self._near.get(demand)
        if near is None:  # counted when somebody asks
            near = self._near[demand] = Counter()
            for seat in mine.values():
                there = self._taken[seat.gpu].gpu
                for each in (Spread.GPU, Spread.NODE, Spread.DOMAIN):
                    near[each, _where(there, each)] += 1
        return near[spread, _where(gpu, spread)]

    def why_not(self, seat: Seat, spread: Spread) -> str:
        """Why ``seat`` cannot be put; empty where it can."""
        taken = self._taken.get(seat.gpu)
        if taken is None:
            return f"there is no GPU {seat.gpu}"
        if seat.replica in self.seats:
            return f"{seat.replica} sits already, on {self.seats[seat.replica].gpu}"
        if self.too_near(seat.demand, spread, taken.gpu):
            return f"a replica of {seat.demand} is on the same {spread.name.lower()} as {seat.gpu}"
        return _why_no_room(taken.room, seat)

    # --- changing -------------------------------------------------------------------------------------------------

    def put(self, seat: Seat, spread: Spread = Spread.NONE) -> None:
        """Raises ``Illegal``."""
        room = self._checked(seat, spread)
        taken = self._taken[seat.gpu]
        before = taken.room
        self._sit(seat, room)
        self._moved(taken, before)

    def _checked(self, seat: Seat, spread: Spread) -> Room:
        """The room once ``seat`` is there. Raises ``Illegal``."""
        reason = self.why_not(seat, spread)
        if reason:
            raise Illegal(reason)
        room = self._taken[seat.gpu].room
        trust = "" if seat.slot.kind.mixes_trust else seat.trust
        state = room.state | 1 << _placement(seat).index
        return Room(room.board, room.kinds, seat.slot.kind, trust, state, room.blocked)

    def _sit(self, seat: Seat, room: Room) -> None:
        taken = self._taken[seat.gpu]
        taken.room = room
        taken.seats[seat.replica] = seat
        self.seats[seat.replica] = seat
        self._of.setdefault(seat.demand, {})[seat.replica] = seat
        self._near.pop(seat.demand, None)
        self.active[seat.slot.board] += len(taken.seats) == 1

    def take(self, replica: str) -> Seat:
        """Removes and returns the seat of ``replica``. Raises ``KeyError``."""
        seat = self.seats.pop(replica)
        taken = self._taken[seat.gpu]
        del taken.seats[replica]
        del self._of[seat.demand][replica]
        self._near.pop(seat.demand, None)
        before, state = taken.room, taken.room.state & ~(1 << _placement(seat).index)
        taken.room = before._replace(state=state) if taken.seats else _room_without_seats(taken.gpu)
        self.active[seat.slot.board] -= not taken.seats
        self._moved(taken, before)
        return seat

    def _moved(self, taken: _Taken, before: Room) -> None:
        """From the bucket of the room that it had to the one of what it has."""
        if taken.gpu.takes_new:
            bucket = self.buckets[before]
            bucket.discard(taken.number)
            if not bucket:
                del self.buckets[before]
            self.buckets.setdefault(taken.room, set()).add(taken.number)

    # --- the whole ------------------------------------------------------------------------------------------------

    def rooms(self) -> Iterator[tuple[Gpu, Room]]:
        for taken in self._taken.values():
            yield taken.gpu, taken.room

    def snapshot(self) -> Fleet:
        return Fleet(self.fleet.gpus, tuple(self.seats.values()), self.fleet.cached)


def _room_without_seats(gpu: Gpu) -> Room:
    if not gpu.blocked:
        return Room(gpu.board, gpu.kinds, None, "", 0)
    state = layouts(gpu.board, "mig").state_of(gpu.blocked)
    return Room(gpu.board, gpu.kinds, Isolation.MIG, "", state, state)


def _why_no_room(room: Room, seat: Seat) -> str:
    slot, why = seat.slot, ""
    if slot.board != room.board or slot.kind not in room.kinds:
        why = f"{seat.gpu} is no {slot.board} that can be {slot.kind.label}"
    elif room.kind not in (None, slot.kind):
        why = f"{seat.gpu} is {room.kind.label if room.kind is not None else None}, not {slot.kind.label}"
    elif room.kind is not None and not slot.kind.mixes_trust and room.trust != seat.trust:
        why = f"{seat.gpu} is shared within {room.trust}, not with {seat.trust}"
    elif not table_of(slot).can_add(room.state, _placement(seat)):
        why = f"{slot.profile} at {seat.start} is not free on {seat.gpu}: {table_of(slot).describe(room.state)}"
    return why


def _placement(seat: Seat) -> Placement:
    return layouts(seat.slot.board, seat.slot.kind.cut).placement(seat.slot.profile, seat.start)


def table_of(slot: Slot) -> Layouts:
    return layouts(slot.board, slot.kind.cut)


def _where(gpu: Gpu, spread: Spread) -> str:
    if spread is Spread.GPU:
        return gpu.id
    return gpu.node if spread is Spread.NODE else gpu.domain
