"""Which GPUs are slower than others that do the same work on equal slices. Pure.

A GPU is compared with its siblings alone, never with what it should do: a model, an engine and a slice have a speed of
their own. It must be far below their median, and farther than they differ among themselves (median absolute
deviation), so that one outlier neither makes others suspect nor hides itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

# Below it a median says nothing: of two that differ nobody knows which is at fault.
LEAST_SIBLINGS = 2
# Runs of one model on equal slices differ by some per cent; heat or a bad link costs a quarter and more.
FAR_BELOW = 0.75
# 1.4826 x MAD is a standard deviation where values are normal; three of them are no chance.
MAD_TO_SIGMA = 1.4826
SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one replica works, in any unit that is the same within ``group``: a deployment on one kind of slice."""

    gpu: str
    group: str
    value: float


def shares(speeds: Iterable[Speed]) -> dict[str, float]:
    """By GPU that could be compared: its share of its siblings' speed where it is far below, else 0.

    A GPU in several groups is slow only where it is slow in each: otherwise it is the model, or a neighbour's load.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    for values in _by_group(speeds).values():
        for gpu, share in _of_group(values).items():
            found[gpu].append(share)
    return {gpu: max(seen) if all(seen) else 0.0 for gpu, seen in found.items()}


def _of_group(values: Mapping[str, float]) -> dict[str, float]:
    """Where as many are slow as are not, nobody knows which of them are as they should be."""
    if len(values) <= LEAST_SIBLINGS:
        return {}
    found = {gpu: _share(value, [v for name, v in values.items() if name != gpu]) for gpu, value in values.items()}
    slow = sum(share > 0 for share in found.values())
    return found if 2 * slow < len(values) else dict.fromkeys(values, 0.0)


def _share(value: float, siblings: list[float]) -> float:
    middle = median(siblings)
    if middle <= 0:
        return 0.0
    spread = MAD_TO_SIGMA * median(abs(other - middle) for other in siblings)
    far = value < FAR_BELOW * middle and middle - value > SIGMAS * spread
    # Never 0 for one that is slow: 0 says that it is not.
    return max(value / middle, 0.01) if far else 0.0


def _by_group(speeds: Iterable[Speed]) -> Mapping[str, dict[str, float]]:
    """By group, by GPU: the median of its replicas there."""
    raw: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for speed in speeds:
        raw[speed.group][speed.gpu].append(speed.value)
    return {group: {gpu: median(values) for gpu, values in gpus.items()} for group, gpus in raw.items()}
