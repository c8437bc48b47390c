"""Which slots together serve a demand for the least price: an unbounded knapsack cover, exact. Pure.

    minimise  sum of price · count  +  loss(sum of rate · count)

The loss falls steeply up to what is guaranteed, then less steeply up to what is wanted, then not at all. It is convex,
so that adding t more goodput at the best remaining price a token bounds every continuation; a walk over the slots in
the order of price a token, cut where that bound is no better than what was found, visits few nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_NODES = 20_000
_EPS = 1e-9


class Item(NamedTuple):
    """A slot on offer: ``key`` is the caller's name for it."""

    key: int
    rate: float
    price: float


@dataclass(frozen=True, slots=True)
class Worth:
    """What goodput that is not served costs: by token/s below ``guaranteed``, and from there up to ``wanted``."""

    guaranteed: float
    wanted: float
    guaranteed_price: float
    burst_price: float

    def loss(self, served: float) -> float:
        below = max(0.0, self.guaranteed - served)
        beyond = max(0.0, self.wanted - max(served, self.guaranteed))
        lost = below * self.guaranteed_price + beyond * self.burst_price
        return lost if lost > _EPS * self.guaranteed_price else 0.0


class Mix(NamedTuple):
    """``counts``: (key, how many), by key. ``cost``: price and loss. ``bound``: no mix costs less."""

    counts: tuple[tuple[int, int], ...]
    rate: float
    cost: float
    bound: float

    @property
    def replicas(self) -> int:
        return sum(count for _, count in self.counts)


def cheapest(items: Sequence[Item], worth: Worth, least: int = 1, most: int = 1 << 30) -> Mix:
    """The best mix of ``least`` to ``most`` replicas, or none at all where that is cheaper. Prices are not negative."""
    return _Search(useful(items, least), worth, least, most).result()


def useful(items: Sequence[Item], least: int = 1) -> list[Item]:
    """Those that no other item beats in both price and rate, the best price a token first."""
    kept: list[Item] = []
    for item in sorted(items, key=lambda one: (one.price, -one.rate, one.key)):
        if item.rate > 0 and not any(other.rate >= item.rate for other in kept):
            kept.append(item)
    return sorted(kept, key=lambda one: (one.price / one.rate, -one.rate))


class _Search:
    def __init__(self, items: list[Item], worth: Worth, least: int, most: int) -> None:
        self.items, self.worth, self.least, self.most = items, worth, least, most
        self.ratios = [item.price / item.rate for item in items]
        self.cheapest_one = min((item.price for item in items), default=0.0)
        self.counts = [0] * len(items)
        self.best_cost = worth.loss(0.0)
        self.best: list[int] | None = None
        self.nodes = 0
        self.root = self._bound(0, 0.0, 0.0) if items else self.best_cost
        if items and least <= most:
            self._walk(0, 0.0, 0, 0.0)

    def _bound(self, index: int, served: float, cost: float) -> float:
        """The least that any continuation with the items from ``index`` on can cost."""
        worth, ratio = self.worth, self.ratios[index]
        found = worth.loss(served)
        for target in (worth.guaranteed, worth.wanted):
            if target > served:
                found = min(found, (target - served) * ratio + worth.loss(target))
        return cost + found

    def _walk(self, index: int, served: float, replicas: int, cost: float) -> None:
        self.nodes += 1
        if replicas >= self.least:
            total = cost + self.worth.loss(served)
            if total < self.best_cost - _EPS:
                self.best_cost, self.best = total, self.counts.copy()
            if served >= self.worth.wanted * (1 - _EPS):
                return
        if replicas >= self.most or self.nodes > MOST_NODES:
            return
        lacking = cost + max(0, self.least - replicas) * self.cheapest_one
        for at in range(index, len(self.items)):
            if max(lacking, self._bound(at, served, cost)) >= self.best_cost - _EPS:
                return  # later items cost more a token
            item = self.items[at]
            self.counts[at] += 1
            self._walk(at, served + item.rate, replicas + 1, cost + item.price)
            self.counts[at] -= 1

    def result(self) -> Mix:
        bound = self.best_cost if self.nodes <= MOST_NODES else min(self.root, self.best_cost)
        chosen = self.best or []
        pairs = [(item.key, count) for item, count in zip(self.items, chosen, strict=False) if count]
        rate = sum(item.rate * count for item, count in zip(self.items, chosen, strict=False))
        return Mix(tuple(sorted(pairs)), rate, self.best_cost, bound)
