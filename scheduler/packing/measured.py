"""What a replica was seen to give in a slot: from the steps of replicas that sat in such slots.

A step belongs to the power of two at or below the number of its requests. At one batch size a replica gives the tokens
of those steps over their time, prefill beside the decodes included; of the sizes whose mean step keeps the SLA's, the
best one counts. A replica that was never busy says little of what it could give: what was seen counts once the batch
reached what the estimate thinks possible, or the step that the SLA allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuruntime.protocol import Pace
from scheduler.packing.model import Need, Slot
from scheduler.packing.needs import ReplicaProfile, batch_in

# Of one batch size, fewer steps or less time say more of chance than of the slot.
LEAST_STEPS = 200
LEAST_S = 5.0
# Rates are told in steps of so much, rounded down: the next minute's noise is to change no plan.
GRAIN = 1.05


@dataclass(frozen=True)
class Seen:
    """Of one model with one precision. ``memory_bytes``: the most that one of its replicas held with ``kv_bytes`` of KV
    memory; 0 where nobody reported it.
    """

    weights_bytes: int = 0
    kv_bytes: int = 0
    memory_bytes: int = 0
    paces: Mapping[Slot, tuple[Pace, ...]] = field(default_factory=dict)


def with_seen(profile: ReplicaProfile, seen: Seen) -> ReplicaProfile:
    """``profile``, a first estimate, with what was measured in its place."""
    known = replace(profile, need=_need(profile.need, seen))
    rates = {slot: rate_of(paces, profile.tpot_s, batch_in(known, slot)) for slot, paces in seen.paces.items()}
    return replace(known, measured={slot: rate for slot, rate in rates.items() if rate is not None})


def rate_of(paces: Iterable[Pace], tpot_s: float | None, batch: int) -> float | None:
    """Tokens/s within the SLA's step; 0 where no batch size keeps it; None where too little was seen.

    ``batch``: as many requests as are thought possible.
    """
    sure = sorted(pace for pace in paces if pace.steps >= LEAST_STEPS and pace.seconds >= LEAST_S)
    kept = [pace for pace in sure if tpot_s is None or pace.seconds / pace.steps <= tpot_s]
    if not sure or (len(kept) == len(sure) and 2 * sure[-1].batch <= batch):
        return None
    best = max((pace.tokens / pace.seconds for pace in kept), default=0.0)
    return GRAIN ** math.floor(math.log(best, GRAIN) + 1e-9) if best > 0 else 0.0


def _need(estimate: Need, seen: Seen) -> Need:
    """A replica that held less than its weights and KV memory together had not filled them yet."""
    beside = seen.memory_bytes - seen.weights_bytes - seen.kv_bytes
    if seen.weights_bytes <= 0 or beside < 0:
        return estimate
    return Need(seen.weights_bytes, estimate.kv_bytes, beside, driver_bytes=0, measured=True)
