"""From a plan by numbers to seats: each pattern gets a GPU so that most replicas stay where they are. Pure.

1. of each GPU and each pattern: how many of its replicas the best layout of the pattern would keep
2. patterns to GPUs so that the sum is largest: a transportation problem, whose corners are whole numbers
3. who stays; then the free slots to new replicas, no two of a demand too near, nodes that have the weights first
4. what found no slot, because replicas would be too near: where ``online`` puts it

Seats on GPUs with blocked instances stay, and nothing is planned there but by 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import highspy
import numpy as np

from scheduler.geometry.layouts import Counts, layouts
from scheduler.packing.books import Books
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Pending, Seat, Slot, Spread, part_of_gpu
from scheduler.packing.offers import Group, Offer, beside_blocked
from scheduler.packing.online import Placer, Policy
from scheduler.packing.refusals import why_no_place
from scheduler.packing.solve import Target, quiet_highs

# A replica that may not move yet counts for more than any number that may.
PINNED = 100.0


@dataclass(frozen=True)
class Use:
    """What a GPU is to be. ``pattern`` of MIG; ``trust`` of shares."""

    group: Group
    kind: Isolation
    pattern: Counts = ()
    trust: str = ""


@dataclass(frozen=True)
class Assignment:
    """All seats of the plan; those that stay are as they were. ``pending``: what found no place, and why."""

    seats: tuple[Seat, ...]
    pending: tuple[Pending, ...]


def assign(
    fleet: Fleet,
    demands: Mapping[str, Demand],
    target: Target,
    *,
    now: float = 0.0,
    pinned: Collection[str] = (),
    policy: Policy | None = None,
) -> Assignment:
    return _Assigner(fleet, demands, target, now=now, pinned=pinned, policy=policy).result()


class _Assigner:
    def __init__(
        self,
        fleet: Fleet,
        demands: Mapping[str, Demand],
        target: Target,
        *,
        now: float,
        pinned: Collection[str],
        policy: Policy | None,
    ) -> None:
        self.fleet, self.demands, self.target, self.now, self.pinned = fleet, demands, target, now, pinned
        self.before = Books(fleet)
        self.books = Books(Fleet(fleet.gpus, (), fleet.cached))
        self.placer = Placer(self.books, policy)
        self.left = {(demand, offer): n for demand, mix in target.slots.items() for offer, n in mix.items()}
        self.names = Names(seat.replica for seat in fleet.seats)
        self.free: dict[tuple[Group, Slot], list[tuple[str, int]]] = {}
        self.shared: dict[tuple[Group, Isolation, str], set[str]] = {}
        self.new: list[Seat] = []
        self.pending: list[Pending] = []

    def result(self) -> Assignment:
        for seat in beside_blocked(self.fleet, self.demands):
            self.books.put(seat)
        uses = self._uses()
        for gpu, use in self._matched(uses):
            self._keep(gpu, use)
        self._fill()
        return Assignment(tuple(self.books.seats.values()), tuple(self.pending))

    def _uses(self) -> Counter[Use]:
        found: Counter[Use] = Counter()
        for group, patterns in self.target.patterns.items():
            for pattern, count in patterns.items():
                found[Use(group, Isolation.MIG, pattern)] += count
        for group, count in self.target.whole.items():
            found[Use(group, Isolation.WHOLE)] += count
        for (group, kind, trust), count in self.target.shared.items():
            found[Use(group, kind, (), trust)] += count
        return found

    # --- patterns to GPUs -----------------------------------------------------------------------------------------

    def _matched(self, uses: Counter[Use]) -> Iterator[tuple[Gpu, Use]]:
        """Every copy of a use with its GPU."""
        gpus = [gpu for gpu in self.fleet.gpus if gpu.takes_new and not gpu.blocked]
        kinds = list(uses)
        pairs = [
            (g, u, value)
            for g, gpu in enumerate(gpus)
            for u, use in enumerate(kinds)
            if (value := self._value(gpu, use))
        ]
        taken: set[int] = set()
        left = Counter(uses)
        for g, u in transport(pairs, len(gpus), [uses[use] for use in kinds]):
            yield gpus[g], kinds[u]
            taken.add(g)
            left[kinds[u]] -= 1
        # What keeps nobody goes to empty GPUs first: the others are emptied only as far as they must be.
        rest = sorted(
            (g for g in range(len(gpus)) if g not in taken), key=lambda g: (len(self.before.on(gpus[g].id)), g)
        )
        for use in left.elements():
            g = next(g for g in rest if Group(gpus[g].board, gpus[g].kinds) == use.group)
            rest.remove(g)
            yield gpus[g], use

    def _value(self, gpu: Gpu, use: Use) -> float:
        room = self.before.room(gpu.id)
        if Group(gpu.board, gpu.kinds) != use.group or room.kind is not use.kind or room.trust != use.trust:
            return 0.0
        seats = [seat for seat in self.before.on(gpu.id) if self._may_stay(seat, use.group)]
        if use.kind is not Isolation.MIG:
            return sum(self._weight(seat) for seat in seats)
        return self._best_layout(gpu, use)[0]

    def _may_stay(self, seat: Seat, group: Group) -> bool:
        return (seat.demand, self._offer(seat, group)) in self.left

    def _offer(self, seat: Seat, group: Group) -> Offer:
        return Offer(group, seat.slot, "" if seat.slot.kind.mixes_trust else seat.trust)

    def _weight(self, seat: Seat) -> float:
        return PINNED if seat.replica in self.pinned else 1.0

    def _best_layout(self, gpu: Gpu, use: Use) -> tuple[float, int]:
        """The most that a layout of the pattern keeps on ``gpu``, and the layout."""
        table = layouts(gpu.board, "mig")
        weights = {
            1 << table.placement(seat.slot.profile, seat.start).index: self._weight(seat)
            for seat in self.before.on(gpu.id)
            if seat.slot.kind is Isolation.MIG and self._may_stay(seat, use.group)
        }
        best = (-1.0, 0)
        for state in table.layouts_of[use.pattern]:
            best = max(best, (sum(weight for bit, weight in weights.items() if state & bit), state))
        return best

    # --- seats ----------------------------------------------------------------------------------------------------

    def _keep(self, gpu: Gpu, use: Use) -> None:
        """Leaves those on ``gpu`` whom the plan keeps, and offers the rest of its slots."""
        mine = self.before.on(gpu.id) if self.before.room(gpu.id).kind is use.kind else ()
        if use.kind not in (Isolation.MIG, Isolation.WHOLE):
            self.shared.setdefault((use.group, use.kind, use.trust), set()).add(gpu.id)
            for seat in mine:
                self._stay(seat, use.group)
            return
        table = layouts(gpu.board, use.kind.cut)
        state = self._best_layout(gpu, use)[1] if use.kind is Isolation.MIG else table.states[-1]
        held = {(seat.slot.profile, seat.start): seat for seat in mine}
        for placement in table.members(state):
            name = table.names[placement.profile]
            there = held.get((name, placement.start))
            if there is None or not self._stay(there, use.group):
                slot = Slot(gpu.board, use.kind, name)
                self.free.setdefault((use.group, slot), []).append((gpu.id, placement.start))

    def _stay(self, seat: Seat, group: Group) -> bool:
        key = seat.demand, self._offer(seat, group)
        if self.left.get(key, 0) <= 0:
            return False
        self.left[key] -= 1
        self.books.put(seat)
        return True

    def _fill(self) -> None:
        replicas = Counter({demand: sum(mix.values()) for demand, mix in self.target.slots.items()})
        wanted = [(demand, offer) for (demand, offer), n in self.left.items() for _ in range(n)]
        # The largest first, and of them those that must keep apart from most siblings.
        wanted.sort(key=lambda one: (-part_of_gpu(one[1].slot), -replicas[one[0]], one[0], one[1].slot))
        homeless = [(demand, offer) for demand, offer in wanted if not self._seat(self.demands[demand], offer)]
        for name, offer in homeless:
            demand = self.demands[name]
            choice = self.placer.find(demand, [offer.slot]) or self.placer.find(demand)
            if choice is None:
                rate = demand.rates[offer.slot]
                self.pending.append(Pending(name, why_no_place(self.books, demand), rate))
            else:
                self.placer.seat(self.names.next(name), demand, choice, now=self.now)

    def _seat(self, demand: Demand, offer: Offer) -> bool:
        if not offer.slot.kind.mixes_trust:
            mine = self.shared.get((offer.group, offer.slot.kind, offer.trust), set())
            others = frozenset(gpu.id for gpu in self.fleet.gpus if gpu.id not in mine)
            choice = self.placer.find(demand, [offer.slot], without=others)
            if choice is not None:
                self.placer.seat(self.names.next(demand.id), demand, choice, now=self.now)
            return choice is not None
        spots = self.free.get((offer.group, offer.slot), [])
        far = [spot for spot in spots if not self.books.too_near(demand.id, demand.spread, self.books.gpu(spot[0]))]
        if not far:
            return self._swap(demand, offer, spots)
        spot = min(far, key=lambda spot: self._nearness(demand, spot))
        spots.remove(spot)
        self._put(demand, offer, spot)
        return True

    def _nearness(self, demand: Demand, spot: tuple[str, int]) -> tuple[int, int, bool, str, int]:
        gpu = self.books.gpu(spot[0])
        near = [self.books.neighbours(demand.id, spread, gpu) for spread in (Spread.DOMAIN, Spread.NODE)]
        return near[0], near[1], (gpu.node, demand.model) not in self.fleet.cached, gpu.id, spot[1]

    def _put(self, demand: Demand, offer: Offer, spot: tuple[str, int]) -> None:
        name = self.names.next(demand.id)
        seat = Seat(name, demand.id, demand.trust, spot[0], offer.slot, spot[1], self.now)
        self.books.put(seat, demand.spread)
        self.new.append(seat)

    def _swap(self, demand: Demand, offer: Offer, spots: list[tuple[str, int]]) -> bool:
        """Every free slot is too near a sibling: somebody new of another demand goes there and leaves its own."""
        for at, other in enumerate(self.new):
            if other.slot != offer.slot or other.demand == demand.id:
                continue
            if self.books.too_near(demand.id, demand.spread, self.books.gpu(other.gpu)):
                continue
            theirs = self.demands[other.demand]
            self.books.take(other.replica)
            for spot in spots:
                if not self.books.too_near(other.demand, theirs.spread, self.books.gpu(spot[0])):
                    spots.remove(spot)
                    moved = Seat(other.replica, other.demand, other.trust, spot[0], other.slot, spot[1], self.now)
                    self.books.put(moved, theirs.spread)
                    self.new[at] = moved
                    self._put(demand, offer, (other.gpu, other.start))
                    return True
            self.books.put(other, theirs.spread)
        return False


class Names:
    """Names for new replicas that none has yet: the caller's own may replace them."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._next: Counter[str] = Counter()

    def next(self, demand: str) -> str:
        while (name := f"{demand}/{self._next[demand]}") in self.taken:
            self._next[demand] += 1
        self.taken.add(name)
        return name


def transport(pairs: list[tuple[int, int, float]], gpus: int, copies: list[int]) -> list[tuple[int, int]]:
    """The (GPU, use) pairs of the largest value, each GPU once, each use as often as it has copies."""
    if not pairs:
        return []
    lp = quiet_highs()
    lp.changeObjectiveSense(highspy.ObjSense.kMaximize)
    empty, nothing = np.empty(0, np.int32), np.empty(0)
    rows = {("gpu", g): n for n, g in enumerate(sorted({g for g, _, _ in pairs}))}
    for _ in rows:
        lp.addRow(0.0, 1.0, 0, empty, nothing)
    for u, count in enumerate(copies):
        rows["use", u] = len(rows)
        lp.addRow(0.0, float(count), 0, empty, nothing)
    for g, u, value in pairs:
        lp.addCol(value, 0.0, highspy.kHighsInf, 2, np.array([rows["gpu", g], rows["use", u]], np.int32), np.ones(2))
    lp.setOptionValue("solver", "simplex")  # a corner: whole numbers
    lp.run()
    chosen = np.array(lp.getSolution().col_value) > 0.5
    return [(g, u) for (g, u, _), taken in zip(pairs, chosen, strict=True) if taken]
