"""What a fleet offers to a plan: groups of alike GPUs, and for each demand the slots that suit it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler.packing.mixes import Item, Worth, cheapest
from scheduler.packing.model import ENOUGH, Demand, Fleet, Isolation, Seat, Slot, Spread, part_of_gpu


class Group(NamedTuple):
    """GPUs that a plan need not tell apart."""

    board: str
    kinds: frozenset[Isolation]


class Offer(NamedTuple):
    """A slot of a group. ``trust``: whose shares these are; empty where strangers may be neighbours."""

    group: Group
    slot: Slot
    trust: str


@dataclass(frozen=True)
class Prices:
    """In GPUs. ``gpus``: of one GPU by board, 1 where not given. ``token``: what one token/s of burst is worth; None:
    so much that all of it is served while there is a GPU. Guaranteed goodput is always worth far more.
    """

    gpus: Mapping[str, float] = field(default_factory=dict)
    token: float | None = None

    def gpu(self, board: str) -> float:
        return self.gpus.get(board, 1.0)


# How much more than its GPUs a demand is worth, so that the last hundredth of it is still served.
_ALL_OF_IT = 30.0
_GUARANTEED_OVER_BURST = 40.0


class Market:
    """Groups with how many GPUs they have, and of each demand the items and the worth.

    GPUs with blocked instances are in no group: their seats are looked at one by one, never planned by numbers.
    ``worth``: by demand, where another market knows it already.
    """

    def __init__(
        self, fleet: Fleet, demands: Iterable[Demand], prices: Prices, worth: Mapping[str, Worth] | None = None
    ) -> None:
        self.prices = prices
        self.demands = tuple(demands)
        self.groups: dict[Group, int] = {}
        usable = [gpu for gpu in fleet.gpus if gpu.takes_new and not gpu.blocked]
        for gpu in usable:
            group = Group(gpu.board, gpu.kinds)
            self.groups[group] = self.groups.get(group, 0) + 1
        self.most = {
            Spread.NONE: 1 << 30,
            Spread.GPU: len(usable),
            Spread.NODE: len({gpu.node for gpu in usable}),
            Spread.DOMAIN: len({gpu.domain for gpu in usable}),
        }
        self.offers: list[Offer] = []
        self._numbers: dict[Offer, int] = {}
        self.items = {demand.id: self._items(demand) for demand in self.demands}
        self.worth = self._worths() if worth is None else worth

    def _items(self, demand: Demand) -> tuple[tuple[int, float, float], ...]:
        """(offer, rate, part of a GPU's price) of each slot that suits."""
        found = []
        for group in self.groups:
            for slot, rate in demand.rates.items():
                if (
                    slot.board == group.board
                    and slot.kind in group.kinds
                    and slot.kind >= demand.isolation
                    and rate > 0
                ):
                    trust = "" if slot.kind.mixes_trust else demand.trust
                    offer = Offer(group, slot, trust)
                    if offer not in self._numbers:
                        self._numbers[offer] = len(self.offers)
                        self.offers.append(offer)
                    found.append((self._numbers[offer], rate, part_of_gpu(slot) * self.prices.gpu(slot.board)))
        return tuple(found)

    def number(self, offer: Offer) -> int | None:
        return self._numbers.get(offer)

    def alone(self, demand: Demand) -> float:
        """What its goodput costs at least, in GPUs, where every unit is used by somebody. 0: nothing suits it."""
        items = [Item(*item) for item in self.items[demand.id]]
        if not items or demand.wanted <= 0:
            return 0.0
        return cheapest(items, Worth(demand.wanted, demand.wanted, 1e9, 0.0), demand.min_replicas).cost

    def _worths(self) -> dict[str, Worth]:
        alone = {demand.id: self.alone(demand) for demand in self.demands}
        costs = [alone[d.id] / d.wanted for d in self.demands if alone[d.id] > 0]
        dearest, dearness = max(costs, default=1.0), max(costs, default=1.0) / min(costs, default=1.0)
        token = _ALL_OF_IT * dearest if self.prices.token is None else self.prices.token
        # Worth a GPU, of the demand that earns the most burst with one.
        a_gpu = _GUARANTEED_OVER_BURST * max(_ALL_OF_IT * dearness, token * dearness / dearest)
        found = {}
        for demand in self.demands:
            must = a_gpu * alone[demand.id] / demand.wanted * demand.weight + token if demand.wanted > 0 else token
            found[demand.id] = Worth(demand.guaranteed, demand.wanted, must, min(token, must))
        return found


def beside_blocked(fleet: Fleet, demands: Mapping[str, Demand]) -> tuple[Seat, ...]:
    """The seats on GPUs with blocked instances, which a plan by numbers leaves as they are."""
    there = {gpu.id for gpu in fleet.gpus if gpu.blocked and gpu.takes_new}
    return tuple(seat for seat in fleet.seats if seat.gpu in there and seat.demand in demands) if there else ()


def rest_of(market: Market, seats: Iterable[Seat]) -> tuple[tuple[Demand, ...], dict[str, Worth]]:
    """What is left of the market's demands once ``seats`` serve them, and what that is worth at the same prices."""
    mine: dict[str, list[Seat]] = {}
    for seat in seats:
        mine.setdefault(seat.demand, []).append(seat)
    demands, worth = [], {}
    for demand in market.demands:
        served = sum(demand.rates.get(seat.slot, 0.0) for seat in mine.get(demand.id, ()))
        fewer = max(0, demand.min_replicas - len(mine.get(demand.id, ())))
        if mine.get(demand.id) and not fewer and served >= demand.wanted * ENOUGH:
            continue
        least = fewer * min(demand.rates.values(), default=0.0) if mine.get(demand.id) else 0.0
        guaranteed = max(demand.guaranteed - served, least, 0.0)
        burst = max(0.0, demand.wanted - served - guaranteed)
        demands.append(replace(demand, guaranteed=guaranteed, burst=burst, min_replicas=fewer))
        price = market.worth[demand.id]
        worth[demand.id] = replace(price, guaranteed=guaranteed, wanted=guaranteed + burst)
    return tuple(demands), worth
