"""The most goodput a GPU-second: how much burst is worth serving, by Dinkelbach's method. Pure.

Maximising G / N over plans is the same as finding the price mu at which max(G - mu · N) is 0 (Dinkelbach 1967): each
round plans with what a GPU earned in the last one as its price, until it earns no more. What is guaranteed is served
whatever it costs; burst is served where it brings more than a GPU brings on the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.packing.model import Demand, Fleet
from scheduler.packing.offers import Market, Prices
from scheduler.packing.solve import Target, solve

MOST_ROUNDS = 6
_CLOSE = 1e-3


@dataclass(frozen=True)
class Best:
    """``per_gpu``: goodput in tokens/s of each GPU in use. ``prices``: those that led to it, for further plans."""

    target: Target
    goodput: float
    per_gpu: float
    prices: Prices
    rounds: int


def most_per_gpu(fleet: Fleet, demands: Iterable[Demand], *, time_limit_s: float = 4.0) -> Best:
    demands = tuple(demands)
    best = _planned(fleet, demands, Prices(), 1, time_limit_s)
    while best.rounds < MOST_ROUNDS and best.per_gpu > 0:
        found = _planned(fleet, demands, Prices(token=1 / best.per_gpu), best.rounds + 1, time_limit_s)
        if found.per_gpu <= best.per_gpu * (1 + _CLOSE):
            break
        best = found
    return best


def _planned(fleet: Fleet, demands: tuple[Demand, ...], prices: Prices, number: int, time_limit_s: float) -> Best:
    target = solve(Market(fleet, demands, prices), time_limit_s=time_limit_s / MOST_ROUNDS)
    goodput = _goodput(target, demands)
    return Best(target, goodput, goodput / target.gpus if target.gpus else 0.0, prices, number)


def _goodput(target: Target, demands: Iterable[Demand]) -> float:
    """Tokens/s that are asked for and served."""
    found = 0.0
    for demand in demands:
        mix = target.slots.get(demand.id, {})
        found += min(demand.wanted, sum(demand.rates[offer.slot] * count for offer, count in mix.items()))
    return found
