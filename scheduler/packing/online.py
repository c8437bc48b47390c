"""One replica more, now: the seat that costs the fleet least, or the reason why there is none. Pure.

Every group of alike GPUs is looked at once for every slot that the demand takes; the cost of a seat is what
``fragments`` says of the state it leads to, plus the part of a GPU that the slot takes. Of the cheapest group the GPU
is taken that holds fewest siblings near, whose node has the weights, and that comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.geometry.boards import CutName
from scheduler.geometry.layouts import Placement, layouts
from scheduler.packing.books import Books, Room
from scheduler.packing.fragments import Fragmentation
from scheduler.packing.mixes import Item, Mix, Worth, cheapest
from scheduler.packing.model import Demand, Gpu, Seat, Slot, Spread, part_of_gpu

# What a slot's part of a GPU weighs beside where it lies.
PART_WEIGHT = 4.0
# Of a GPU where nobody sits but something is blocked: more than one in use costs, less than one that is whole.
OPENED_BLOCKED = 1.0


@dataclass(frozen=True)
class Reserve:
    """``gpus`` empty GPUs of ``board`` are kept for slots of at least ``part`` of a GPU. Guaranteed goodput may use
    them where nothing else is left.
    """

    board: str
    gpus: int
    part: float = 0.5


@dataclass(frozen=True)
class Policy:
    """``mix``: board -> profile -> how much it is asked for, by which fragmentation is weighed."""

    mix: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reserves: tuple[Reserve, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    gpu: str
    slot: Slot
    start: int
    cost: float
    opens: bool


class Placer:
    """Decides on ``books`` and never changes them by itself; ``seat`` does."""

    def __init__(self, books: Books, policy: Policy | None = None) -> None:
        self.books = books
        self.policy = policy or Policy()
        self._reserved = {reserve.board: reserve for reserve in self.policy.reserves}
        self._fragments: dict[tuple[str, str], Fragmentation] = {}

    def fragmentation(self, board: str, cut: CutName) -> Fragmentation:
        key = board, cut
        if key not in self._fragments:
            mix = self.policy.mix.get(board) if cut == "mig" else None
            self._fragments[key] = Fragmentation(layouts(board, cut), mix)
        return self._fragments[key]

    # --- one replica ----------------------------------------------------------------------------------------------

    def find(
        self,
        demand: Demand,
        slots: Iterable[Slot] | None = None,
        *,
        may_open: bool = True,
        burst: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> Choice | None:
        """The cheapest seat for a replica of ``demand`` in ``slots`` (default: all that it takes), not on ``without``.

        Takes from a reserve only where nothing else is left, and never for ``burst``.
        """
        wanted = [slot for slot in (demand.rates if slots is None else slots) if self._suits(demand, slot)]
        found = self._ranked(demand, wanted, may_open=may_open, reserved=True)
        choice = self._first(demand, found, without)
        if choice is None and may_open and not burst and self._reserved:
            choice = self._first(demand, self._ranked(demand, wanted, may_open=True, reserved=False), without)
        return choice

    def _suits(self, demand: Demand, slot: Slot) -> bool:
        return slot.kind >= demand.isolation and demand.rates.get(slot, 0.0) > 0

    def _ranked(
        self, demand: Demand, slots: list[Slot], *, may_open: bool, reserved: bool
    ) -> list[tuple[float, Slot, Room, Placement]]:
        """Every group of GPUs with room in one of the slots, the cheapest first."""
        found = []
        parts = {slot: PART_WEIGHT * part_of_gpu(slot) for slot in slots}
        for room in self.books.buckets:
            if room.unused and not may_open:
                continue
            for slot in slots:
                best = self._best(demand, slot, room)
                if best is None or (reserved and room.kind is None and self.keeps(slot)):
                    continue
                found.append((best[0] + parts[slot], slot, room, best[1]))
        found.sort(key=lambda one: (one[0], one[1]))
        return found

    def _best(self, demand: Demand, slot: Slot, room: Room) -> tuple[float, Placement] | None:
        """Where in ``room`` and at what cost beside the slot's part; None where it has no room."""
        if slot.board != room.board or slot.kind not in room.kinds:
            return None
        if room.kind is not None and (room.kind is not slot.kind or room.trust not in ("", demand.trust)):
            return None
        best = self.fragmentation(slot.board, slot.kind.cut).best(room.state, slot.profile)
        if best is None or not room.blocked or not room.unused:
            return best
        return best[0] + OPENED_BLOCKED, best[1]

    def best_in(
        self, demand: Demand, room: Room, slots: Iterable[Slot] | None = None
    ) -> tuple[float, Slot, int] | None:
        """Cost, slot and start of the cheapest seat in a GPU with ``room``, reserved or not; None if there is none."""
        found: tuple[float, Slot, int] | None = None
        for slot in demand.rates if slots is None else slots:
            best = self._best(demand, slot, room) if self._suits(demand, slot) else None
            if best is None:
                continue
            ranked = best[0] + PART_WEIGHT * part_of_gpu(slot), slot, best[1].start
            if found is None or ranked < found:
                found = ranked
        return found

    def keeps(self, slot: Slot) -> bool:
        """Whether the empty GPUs of its board are reserved for larger ones now."""
        reserve = self._reserved.get(slot.board)
        if reserve is None or part_of_gpu(slot) >= reserve.part:
            return False
        empty = sum(
            len(gpus) for room, gpus in self.books.buckets.items() if room.kind is None and room.board == slot.board
        )
        return empty <= reserve.gpus

    def _first(
        self, demand: Demand, ranked: list[tuple[float, Slot, Room, Placement]], without: frozenset[str]
    ) -> Choice | None:
        for cost, slot, room, placement in ranked:
            gpu = self._pick(demand, room, without)
            if gpu is not None:
                return Choice(gpu.id, slot, placement.start, cost, room.unused)
        return None

    def _pick(self, demand: Demand, room: Room, without: frozenset[str]) -> Gpu | None:
        books, found, best = self.books, None, (0, 0, False, 0)
        for number in books.buckets[room]:
            gpu = books.gpus[number]
            if gpu.id in without or books.too_near(demand.id, demand.spread, gpu):
                continue
            domain, node = (books.neighbours(demand.id, spread, gpu) for spread in (Spread.DOMAIN, Spread.NODE))
            key = (domain, node, (gpu.node, demand.model) not in books.fleet.cached, number)
            if found is None or key < best:
                found, best = gpu, key
        return found

    def seat(self, replica: str, demand: Demand, choice: Choice, *, now: float = 0.0, burst: bool = False) -> Seat:
        """Puts it there. Raises ``Illegal`` where the books changed since ``find``."""
        seat = Seat(replica, demand.id, demand.trust, choice.gpu, choice.slot, choice.start, now, burst)
        self.books.put(seat, demand.spread)
        return seat

    def slots_for(self, demand: Demand, lacking: float) -> list[Slot]:
        """The slots that a replica takes now on the cheapest way to ``lacking`` tokens/s, the largest first."""
        slots = list(demand.rates)
        ranked = sorted((part_of_gpu(slots[n]), n) for n, _ in self.mix(demand, lacking).counts)
        return [slots[n] for _, n in ranked[-1:]]

    # --- a whole demand -------------------------------------------------------------------------------------------

    def prices(self, demand: Demand) -> dict[Slot, float]:
        """What one seat of each slot would cost now; slots without room are left out."""
        found: dict[Slot, float] = {}
        for cost, slot, _, _ in self._ranked(demand, list(demand.rates), may_open=True, reserved=True):
            found.setdefault(slot, cost)
        return found

    def mix(self, demand: Demand, wanted: float | None = None) -> Mix:
        """How many replicas in which slots serve ``wanted`` (default: all) for the least cost now.

        Keys number the demand's rates.
        """
        goal = demand.wanted if wanted is None else wanted
        slots, prices = list(demand.rates), self.prices(demand)
        items = [Item(n, demand.rates[slot], prices[slot]) for n, slot in enumerate(slots) if slot in prices]
        worth = Worth(goal, goal, 1e6 / max(goal, 1e-9), 0.0)
        return cheapest(items, worth, demand.min_replicas if wanted is None else 1)
