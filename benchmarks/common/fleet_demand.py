"""Who asks for what: demands of a hosting platform by seed, their coming and going, and Alibaba's pods of 2023.

Models are open ones with the sizes of their own configurations; a sequence holds 1,300 tokens of KV memory on average,
which is the mean prompt and half the mean answer of Azure's conversations of 2023. Goodput asked for is log-normal,
as the popularity of hosted models is: half of them ask for less than ``MEDIAN_TOKENS_PER_S``.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scheduler.geometry.boards import board
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Need, Slot
from scheduler.packing.needs import ReplicaProfile, rates

GB = 10**9
BOARD = "h100-sxm-80gb"
CONTEXT_TOKENS = 1300
MEDIAN_TOKENS_PER_S, SIGMA, MOST_TOKENS_PER_S = 800.0, 1.0, 8000.0
TENANTS = 20
TPOT_S = 0.05


@dataclass(frozen=True)
class Kind:
    """``kv_bytes`` a token; ``popularity``: how often it is asked for, against the others."""

    name: str
    weights_gb: float
    kv_bytes: int
    popularity: int


MODELS = (
    Kind("qwen3-0.6b", 1.2, 114_688, 3),
    Kind("qwen3-1.7b", 3.4, 114_688, 4),
    Kind("qwen3-4b", 8.0, 147_456, 4),
    Kind("qwen3-8b-fp8", 8.6, 147_456, 4),
    Kind("qwen3-8b", 16.4, 147_456, 3),
    Kind("qwen3-14b-fp8", 15.0, 163_840, 2),
    Kind("qwen3-32b-fp8", 33.0, 262_144, 1),
)
ISOLATIONS = {Isolation.MPS: 3, Isolation.MIG: 16, Isolation.WHOLE: 1}


@cache
def _rates(name: str, isolation: Isolation, boards: tuple[str, ...]) -> dict[Slot, float]:
    kind = next(kind for kind in MODELS if kind.name == name)
    sequence = kind.kv_bytes * CONTEXT_TOKENS
    need = Need(int(kind.weights_gb * GB), 8 * sequence, GB // 2)
    return rates(ReplicaProfile(need, sequence, tpot_s=TPOT_S), isolation, boards)


def one_demand(name: str, chance: random.Random, scale: float = 1.0, boards: tuple[str, ...] = (BOARD,)) -> Demand:
    kind = chance.choices(MODELS, [kind.popularity for kind in MODELS])[0]
    isolation = chance.choices(list(ISOLATIONS), list(ISOLATIONS.values()))[0]
    wanted = scale * min(MOST_TOKENS_PER_S, chance.lognormvariate(math.log(MEDIAN_TOKENS_PER_S), SIGMA))
    return Demand(
        id=name,
        model=kind.name,
        trust=f"tenant-{chance.randrange(TENANTS)}",
        guaranteed=0.7 * wanted,
        burst=0.3 * wanted,
        rates=_rates(kind.name, isolation, boards),
        isolation=isolation,
    )


def demands(count: int, seed: int, scale: float = 1.0, boards: tuple[str, ...] = (BOARD,)) -> list[Demand]:
    chance = random.Random(seed)
    return [one_demand(f"d{n}", chance, scale, boards) for n in range(count)]


def fleet(count: int, key: str = BOARD) -> Fleet:
    """Eight GPUs a node, four nodes a rack."""
    return Fleet(tuple(Gpu(f"g{n:04}", key, f"n{n // 8:03}", f"r{n // 32:02}") for n in range(count)))


@dataclass(frozen=True)
class Visit:
    """Times in hours."""

    demand: Demand
    comes: float
    goes: float


def churn(arrivals: int, live: float, mean_life_h: float, seed: int) -> list[Visit]:
    """Poisson arrivals and exponential lifetimes, ``live`` demands at a time on average."""
    chance = random.Random(seed)
    return _visits((one_demand(f"d{n}", chance) for n in range(arrivals)), live, mean_life_h, chance)


def alibaba(path: Path, arrivals: int, live: float, mean_life_h: float, seed: int) -> list[Visit]:
    """The same coming and going of pods as large as Alibaba's, in the order of their trace; none can be divided."""
    pods = list(_pods(path, BOARD))
    return _visits(pods[:arrivals], live, mean_life_h, random.Random(seed))


def _visits(demands: Iterable[Demand], live: float, mean_life_h: float, chance: random.Random) -> list[Visit]:
    found, now = [], 0.0
    for demand in demands:
        now += chance.expovariate(live / mean_life_h)
        found.append(Visit(demand, now, now + chance.expovariate(1 / mean_life_h)))
    return found


def _pods(path: Path, key: str) -> Iterator[Demand]:
    """Of one GPU or a part of it, by the sevenths of a GPU that they ask for."""
    profiles = [profile for profile in board(key).mig.profiles if profile.name in board(key).mig.serving()]
    most = max(profile.slices for profile in profiles)
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["num_gpu"] == "1"]
    for row in sorted(rows, key=lambda one: int(one["creation_time"])):
        wanted = min(most, math.ceil(int(row["gpu_milli"]) / 1000 * most - 0.01))
        slots = {Slot(key, Isolation.MIG, p.name): 1.0 for p in profiles if p.slices >= wanted}
        yield Demand(row["name"], row["name"], "alibaba", 1.0, slots)
