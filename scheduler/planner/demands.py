"""What contracts and settings ask of GPUs that are cut: demands, and what the fleet as a whole is asked for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from scheduler.packing.model import Demand, Isolation, Slot, Spread, part_of_gpu
from scheduler.packing.needs import ReplicaProfile, rates
from scheduler.packing.online import Policy, Reserve

# Weights are rounded, so that they change only when what is asked for does.
_GRAIN = 0.05


@dataclass(frozen=True)
class Asked:
    """Of one deployment. ``guaranteed`` and ``burst``: output tokens/s of all its contracts together.

    ``trust``: whose it is; deployments of one owner may share what faults. ``min_replicas``: how many run whatever is
    asked of them.
    """

    id: str
    model: str
    trust: str
    isolation: Isolation
    min_replicas: int
    guaranteed: float
    burst: float
    profile: ReplicaProfile
    weight: float = 1.0
    spread: Spread = Spread.GPU


def demand(asked: Asked, boards: Collection[str]) -> Demand:
    """``boards``: the types of GPU that the fleet has.

    A deployment to which nothing is promised is to have its replicas all the same, so it asks for what the least slot
    gives to each: without that a plan would save it away.
    """
    found = _rates(_Key(asked.profile, asked.isolation, tuple(sorted(boards))))
    guaranteed, burst = max(0.0, asked.guaranteed), max(0.0, asked.burst)
    if guaranteed == 0.0:
        guaranteed = asked.min_replicas * min(found.values(), default=0.0)
        burst = max(0.0, burst - guaranteed)
    return Demand(
        id=asked.id,
        model=asked.model,
        trust=asked.trust,
        guaranteed=guaranteed,
        rates=found,
        burst=burst,
        isolation=asked.isolation,
        min_replicas=max(1, asked.min_replicas),
        spread=asked.spread,
        weight=asked.weight,
    )


def policy_of(demands: Iterable[Demand], reserves: Iterable[Reserve] = ()) -> Policy:
    """What is asked for, board by board: the profiles that would serve each demand with the least of a GPU."""
    asked: dict[str, Counter[str]] = {}
    for one in demands:
        best: dict[str, tuple[float, Slot]] = {}
        for slot, rate in one.rates.items():
            if slot.kind is Isolation.MIG and rate > 0 and slot.kind >= one.isolation:
                count = max(one.min_replicas, -(-one.wanted // rate))
                ranked = count * part_of_gpu(slot), slot
                best[slot.board] = min(best.get(slot.board, ranked), ranked)
        for board, (_, slot) in best.items():
            asked.setdefault(board, Counter())[slot.profile] += 1
    return Policy({board: _rounded(counts) for board, counts in asked.items()}, tuple(reserves))


def _rounded(counts: Counter[str]) -> Mapping[str, float]:
    total = counts.total()
    shares = {name: round(count / total / _GRAIN) * _GRAIN for name, count in sorted(counts.items())}
    return {name: share for name, share in shares.items() if share > 0}


class _Key:
    """A profile by its values: what is measured of it is a mapping."""

    def __init__(self, profile: ReplicaProfile, isolation: Isolation, boards: tuple[str, ...]) -> None:
        self.profile, self.isolation, self.boards = profile, isolation, boards
        bare = replace(profile, measured={})
        fields = (bare.need, bare.kv_bytes_per_sequence, bare.max_sequences, bare.tpot_s)
        self.values = (fields, tuple(sorted(profile.measured.items())), isolation, boards)

    def __hash__(self) -> int:
        return hash(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.values == other.values


@lru_cache(maxsize=4096)
def _rates(key: _Key) -> Mapping[Slot, float]:
    """Deployments of one model with the same settings share one table."""
    return rates(key.profile, key.isolation, key.boards)
