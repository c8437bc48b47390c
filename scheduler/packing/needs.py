"""In which slots a replica fits, and what it gives there: measured where somebody measured, else a first estimate.

The estimate is the roofline of decoding: a step reads the weights W and the KV memory k of each of its n sequences
once, beside a time f that no bandwidth shortens (launches, sampling, the host), so that a slot of bandwidth B gives
n / (f + (W + n · k) / B) tokens/s. n is what the KV memory holds, what the engine batches at most, and what the SLA's
step allows. Bandwidth follows memory units, as MIG gives it out. Where a slot has fewer SMs than its part of the
bandwidth, prefill, a part of the time, takes that much longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.geometry.boards import board
from scheduler.packing.model import EVERY_KIND, Isolation, Need, Slot, part_of_gpu, profile_of

# Of the peak bandwidth, what engines reach over a long time; and of the time, what prefill takes of a chat's load.
REACHED = 0.6
PREFILL_PART = 0.3
STEP_FLOOR_S = 0.004
# What neighbours cost: NVIDIA reports 0.76 for time-slices beside MIG; MPS's is an assumption until it is measured.
NEIGHBOURS = {Isolation.TIME_SLICE: 0.76, Isolation.MPS: 0.9, Isolation.MIG: 1.0, Isolation.WHOLE: 1.0}


@dataclass(frozen=True)
class ReplicaProfile:
    """What is known of a model's replica. ``measured``: goodput in tokens/s by slot, which wins over any estimate.

    ``kv_bytes_per_sequence``: on average over a running batch of at most ``max_sequences``. ``tpot_s``: the slowest
    step that the SLA allows.
    """

    need: Need
    kv_bytes_per_sequence: int
    max_sequences: int = 64
    tpot_s: float | None = None
    measured: Mapping[Slot, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fit:
    """``rate`` 0: it does not fit, for ``why_not``."""

    rate: float
    measured: bool = False
    why_not: str = ""


def slots_of(board_key: str, kinds: Iterable[Isolation] = EVERY_KIND) -> tuple[Slot, ...]:
    """Every way that this board holds a replica of a language model."""
    found = board(board_key)
    return tuple(
        Slot(board_key, kind, name) for kind in sorted(kinds, reverse=True) for name in found.cut(kind.cut).serving()
    )


def fits(profile: ReplicaProfile, isolation: Isolation, boards: Iterable[str]) -> dict[Slot, Fit]:
    """Each slot of these boards, and whether a replica that needs ``isolation`` may sit there and what it gives."""
    return {slot: fit(profile, isolation, slot) for key in boards for slot in slots_of(key)}


def rates(profile: ReplicaProfile, isolation: Isolation, boards: Iterable[str]) -> dict[Slot, float]:
    """Goodput by slot, of the slots that fit."""
    return {slot: found.rate for slot, found in fits(profile, isolation, boards).items() if found.rate > 0}


def fit(profile: ReplicaProfile, isolation: Isolation, slot: Slot) -> Fit:
    if slot.kind < isolation:
        return Fit(0.0, why_not=f"{slot.kind.label} isolates less than {isolation.label}, which is required")
    memory = profile_of(slot).memory_bytes
    if profile.need.total_bytes > memory:
        return Fit(0.0, why_not=f"needs {_gb(profile.need.total_bytes)}; {slot.profile} has {_gb(memory)}")
    if (measured := profile.measured.get(slot)) is not None:
        why_not = "" if measured > 0 else f"no step in {slot.profile} was measured as short as the SLA asks"
        return Fit(measured, measured=True, why_not=why_not)
    rate = first_estimate(profile, slot)
    if rate <= 0:
        step_s = STEP_FLOOR_S + profile.need.weights_bytes / _bandwidth(slot)
        limit = f"{1000 * (profile.tpot_s or 0):.0f} ms"
        return Fit(0.0, why_not=f"one step takes {1000 * step_s:.0f} ms in {slot.profile}; the SLA allows {limit}")
    return Fit(rate)


def first_estimate(profile: ReplicaProfile, slot: Slot) -> float:
    """Tokens/s of one replica in ``slot``, which it must fit; 0 where not even one sequence keeps the SLA's step."""
    need, bandwidth, batch = profile.need, _bandwidth(slot), batch_in(profile, slot)
    if batch < 1:
        return 0.0
    step_s = STEP_FLOOR_S + (need.weights_bytes + batch * profile.kv_bytes_per_sequence) / bandwidth
    sms = profile_of(slot).sms / board(slot.board).sms
    slower = max(1.0, part_of_gpu(slot) / sms)
    return batch / step_s * NEIGHBOURS[slot.kind] / (1 - PREFILL_PART + PREFILL_PART * slower)


def batch_in(profile: ReplicaProfile, slot: Slot) -> int:
    """How many sequences run at once in ``slot``, by the estimate; 0 where not even one keeps the SLA's step."""
    need = profile.need
    room = profile_of(slot).memory_bytes - need.weights_bytes - need.workspace_bytes - need.driver_bytes
    batch = min(profile.max_sequences, max(1, room // profile.kv_bytes_per_sequence))
    if profile.tpot_s is not None:
        read_in_time = (profile.tpot_s - STEP_FLOOR_S) * _bandwidth(slot) - need.weights_bytes
        batch = min(batch, int(read_in_time // profile.kv_bytes_per_sequence))
    return max(0, batch)


def _bandwidth(slot: Slot) -> float:
    return REACHED * board(slot.board).bandwidth_gb_per_s * 1e9 * part_of_gpu(slot)


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
