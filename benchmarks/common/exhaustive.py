"""The fewest GPUs of small cases by trying every plan: A30s, which have three profiles."""

from __future__ import annotations

import random
from functools import cache
from itertools import product

from scheduler.geometry.layouts import layouts
from scheduler.packing.model import Demand, Isolation, Slot

BOARD = "a30-24gb"
PROFILES = layouts(BOARD, "mig").names
SLOTS = tuple(Slot(BOARD, Isolation.MIG, name) for name in PROFILES)
# Goodput of a replica by profile; 0: it does not fit.
KINDS = ((1.0, 1.75, 3.0), (0.0, 1.0, 2.25), (0.0, 0.0, 1.25), (0.75, 1.5, 1.75))
MOST_REPLICAS = 4
Counts = tuple[int, ...]


def a_demand(name: str, rates: tuple[float, ...], wanted: float) -> Demand:
    offered = {slot: rate for slot, rate in zip(SLOTS, rates, strict=True) if rate}
    return Demand(name, name, f"tenant-{name}", wanted, offered)


def some_demands(chance: random.Random) -> list[Demand]:
    """Three or four, each of at most 3 tokens/s."""
    count = chance.randint(3, 4)
    return [a_demand(f"d{n}", chance.choice(KINDS), chance.randint(1, 12) / 4) for n in range(count)]


def fewest_gpus(demands: list[Demand]) -> int:
    """Over every way to serve each demand in full; no two replicas of one on the same GPU."""
    best = 1 << 30
    for mixes in product(*map(covers, demands)):
        total = tuple(map(sum, zip(*mixes, strict=True)))
        best = min(best, max(gpus_for(total), *map(sum, mixes)))
    return best


def covers(demand: Demand) -> list[Counts]:
    """Every mix that serves all of it and could spare none of its replicas."""
    rates = [demand.rates.get(slot, 0.0) for slot in SLOTS]
    found = []
    for counts in product(range(MOST_REPLICAS + 1), repeat=len(SLOTS)):
        if any(n and not rate for n, rate in zip(counts, rates, strict=True)):
            continue
        served = sum(n * rate for n, rate in zip(counts, rates, strict=True))
        least = min((rate for n, rate in zip(counts, rates, strict=True) if n), default=0.0)
        if served >= demand.wanted > served - least:
            found.append(counts)
    return found


@cache
def gpus_for(counts: Counts) -> int:
    """The fewest GPUs that hold so many instances of each profile."""
    if not any(counts):
        return 0
    vectors = [vector for vector in layouts(BOARD, "mig").vectors if any(vector)]
    fitting = [one for one in vectors if all(a <= b for a, b in zip(one, counts, strict=True))]
    return 1 + min(gpus_for(tuple(b - a for a, b in zip(one, counts, strict=True))) for one in fitting)
