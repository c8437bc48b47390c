"""Emptying GPUs by moving few replicas: the cheapest way to fewer GPUs between two exact plans. Pure.

One GPU after the other, the least filled first, its replicas are tried elsewhere, in slots that give at least as much.
Where the largest finds no room, room is made for it: a few smaller replicas of one GPU are moved first. A GPU that
cannot be emptied within the budget is left as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from scheduler.geometry.layouts import Placement, layouts
from scheduler.packing.books import Books
from scheduler.packing.model import Demand, Isolation, Seat, Slot, part_of_gpu
from scheduler.packing.online import Placer

# So many replicas at most are moved to make room for one.
MOST_CLEARED = 2


@dataclass(frozen=True, slots=True)
class Change:
    """A replica's seat before and after; ``before`` None: new, ``after`` None: let go."""

    before: Seat | None
    after: Seat | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Changes that are worth it only together: they empty ``gpu``."""

    gpu: str
    changes: tuple[Change, ...]


class _Trial:
    """Moves on the books that can be undone. A replica that moves twice counts once, from where it was first."""

    def __init__(self, placer: Placer, demands: Mapping[str, Demand], pinned: Collection[str], budget: int) -> None:
        self.placer, self.books = placer, placer.books
        self.demands, self.pinned, self.budget = demands, pinned, budget
        self.first: dict[str, Seat] = {}

    def lift(self, seat: Seat) -> bool:
        """Takes a seat away for now; False where it may not be moved."""
        if seat.replica in self.pinned or seat.demand not in self.demands:
            return False
        if seat.replica not in self.first:
            if len(self.first) >= self.budget:
                return False
            self.first[seat.replica] = seat
        self.books.take(seat.replica)
        return True

    def land(self, seat: Seat, without: frozenset[str]) -> bool:
        """Seats a lifted replica on a GPU in use."""
        demand = self.demands[seat.demand]
        choice = self.placer.find(demand, as_good(demand, seat.slot), may_open=False, without=without)
        if choice is None:
            return False
        self.books.put(moved(seat, choice.gpu, choice.slot, choice.start), demand.spread)
        return True

    def undo(self) -> None:
        for replica in self.first:
            if replica in self.books.seats:
                self.books.take(replica)
        for seat in self.first.values():
            self.books.put(seat)

    def changes(self, why: str) -> tuple[Change, ...]:
        pairs = ((seat, self.books.seats[replica]) for replica, seat in self.first.items())
        return tuple(Change(before, after, why) for before, after in pairs if before.place != after.place)


def as_good(demand: Demand, slot: Slot) -> list[Slot]:
    """The slots in which a replica gives at least what it gives in ``slot``."""
    least = demand.rates.get(slot, 0.0)
    return [other for other, rate in demand.rates.items() if rate >= least]


def moved(seat: Seat, gpu: str, slot: Slot, start: int) -> Seat:
    return replace(seat, gpu=gpu, slot=slot, start=start)


def compact(
    placer: Placer,
    demands: Mapping[str, Demand],
    *,
    budget: int,
    pinned: Collection[str] = (),
    most_bundles: int = 1 << 30,
) -> list[Bundle]:
    """Empties GPUs on the placer's books with at most ``budget`` moves in all; what was changed, in order.

    ``pinned``: replicas that stay where they are.
    """
    found: list[Bundle] = []
    left = budget
    for gpu in _emptiest_first(placer.books):
        if left <= 0 or len(found) >= most_bundles:
            break
        if not 0 < len(placer.books.on(gpu)) <= left:
            continue
        changes = _empty(placer, demands, pinned, gpu, left)
        if changes is not None:
            found.append(Bundle(gpu, changes))
            left -= len(changes)
    return found


def _emptiest_first(books: Books) -> list[str]:
    filled = []
    for number, (gpu, room) in enumerate(books.rooms()):
        if room.kind is None:
            continue
        table = layouts(room.board, room.kind.cut)
        used = 1 - table.free_units(room.state) / table.units
        if used < 1 or room.kind is Isolation.WHOLE:
            filled.append((len(books.on(gpu.id)), used, -number, gpu.id))
    return [one[-1] for one in sorted(filled)]


def _empty(
    placer: Placer, demands: Mapping[str, Demand], pinned: Collection[str], gpu: str, budget: int
) -> tuple[Change, ...] | None:
    trial = _Trial(placer, demands, pinned, budget)
    here = sorted(placer.books.on(gpu), key=lambda seat: (-part_of_gpu(seat.slot), seat.replica))
    done = all(trial.lift(seat) for seat in here)
    for seat in here if done else ():
        if not (trial.land(seat, frozenset((gpu,))) or _make_room(trial, seat, gpu)):
            done = False
            break
    if not done:
        trial.undo()
        return None
    return trial.changes(f"{gpu} is emptied")


def _make_room(trial: _Trial, seat: Seat, emptied: str) -> bool:
    """Clears a few smaller replicas off one GPU so that ``seat`` fits there. They land before it does."""
    books, demand = trial.books, trial.demands[seat.demand]
    for slot in sorted(as_good(demand, seat.slot), key=lambda one: (part_of_gpu(one), one)):
        if slot.kind is not Isolation.MIG:
            continue
        table, size = layouts(slot.board, "mig"), part_of_gpu(slot)
        for gpu, room in list(books.rooms()):
            if gpu.id == emptied or room.kind is not Isolation.MIG or room.board != slot.board or not gpu.takes_new:
                continue
            if table.free_units(room.state) / table.units < size or books.too_near(demand.id, demand.spread, gpu):
                continue
            for placement in table.placements:
                if table.names[placement.profile] != slot.profile:
                    continue
                if _clear(trial, gpu.id, slot, placement, emptied):
                    books.put(moved(seat, gpu.id, slot, placement.start), demand.spread)
                    return True
    return False


def _clear(trial: _Trial, gpu: str, slot: Slot, placement: Placement, emptied: str) -> bool:
    """Moves what is where ``placement`` of ``slot`` would be on ``gpu`` elsewhere, all of it or nothing."""
    in_the_way, table, state = [], layouts(slot.board, "mig"), trial.books.room(gpu).state
    for seat in trial.books.on(gpu):
        there = table.placement(seat.slot.profile, seat.start)
        if there.units & placement.units:
            in_the_way.append(seat)
            state &= ~(1 << there.index)
    if not table.can_add(state, placement):
        return False
    if not 0 < len(in_the_way) <= MOST_CLEARED or len(trial.first) + len(in_the_way) > trial.budget:
        return False
    if any(seat.replica in trial.pinned or seat.demand not in trial.demands for seat in in_the_way):
        return False
    began = dict(trial.first)
    lifted = [seat for seat in in_the_way if trial.lift(seat)]
    if len(lifted) == len(in_the_way) and all(trial.land(seat, frozenset((gpu, emptied))) for seat in lifted):
        return True
    for seat in lifted:
        if seat.replica in trial.books.seats:
            trial.books.take(seat.replica)
    for seat in lifted:
        trial.books.put(seat)
    trial.first = began
    return False
