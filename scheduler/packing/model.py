"""What is packed, and onto what: plain data, without a clock. Times in seconds of the caller's clock.

Demand   a deployment's goodput to be served, and what one replica gives in each slot it fits
Slot     one way to hold a replica: a type of GPU, an isolation, a profile of that cut
Seat     a replica on units of a GPU
Fleet    GPUs, seats, and which nodes hold which weights
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from scheduler.geometry.boards import CutName, Profile, board


class Isolation(IntEnum):
    """The ladder: a demand takes its own rung or a higher one. From MIG on, neighbours may be strangers."""

    TIME_SLICE = 0
    MPS = 1
    MIG = 2
    WHOLE = 3

    @property
    def cut(self) -> CutName:
        return _CUTS[self]

    @property
    def mixes_trust(self) -> bool:
        """Whether replicas of different trust domains may be on one GPU of this kind."""
        return self >= Isolation.MIG

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


_CUTS: dict[Isolation, CutName] = {
    Isolation.TIME_SLICE: "shares",
    Isolation.MPS: "shares",
    Isolation.MIG: "mig",
    Isolation.WHOLE: "whole",
}
EVERY_KIND = frozenset(Isolation)
# By their labels, which are the names in messages, in the database and in stored plans.
ISOLATION: dict[str, Isolation] = {kind.label: kind for kind in Isolation}
# Goodput is an estimate or a measurement: the last hundredth of a demand is not worth a replica of its own.
ENOUGH = 0.99


class Spread(IntEnum):
    """What two replicas of one demand may not have in common."""

    NONE = 0
    GPU = 1
    NODE = 2
    DOMAIN = 3


class Slot(NamedTuple):
    board: str
    kind: Isolation
    profile: str

    @property
    def label(self) -> str:
        return f"{self.board} {self.kind.label} {self.profile}"


@cache
def profile_of(slot: Slot) -> Profile:
    return board(slot.board).cut(slot.kind.cut).profile(slot.profile)


@cache
def part_of_gpu(slot: Slot) -> float:
    """Its units over the GPU's: what it costs at least, in GPUs."""
    cut = board(slot.board).cut(slot.kind.cut)
    return cut.profile(slot.profile).size / cut.units


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of one replica. ``driver_bytes``: what a process costs beside what it allots. ``measured``: no estimate."""

    weights_bytes: int
    kv_bytes: int
    workspace_bytes: int
    driver_bytes: int = 512 << 20
    measured: bool = False

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.workspace_bytes + self.driver_bytes


@dataclass(frozen=True, slots=True)
class Demand:
    """``guaranteed`` and ``burst``: goodput, tokens/s within the SLA, that must and that may be served beyond it.

    ``rates``: goodput of one replica in each slot that it fits and whose isolation suffices; a slot that is not there
    is never taken. ``trust``: replicas of other trust domains share neither MPS nor time-slices with it.
    """

    id: str
    model: str
    trust: str
    guaranteed: float
    rates: Mapping[Slot, float]
    burst: float = 0.0
    isolation: Isolation = Isolation.MIG
    min_replicas: int = 1
    spread: Spread = Spread.GPU
    weight: float = 1.0

    @property
    def wanted(self) -> float:
        return self.guaranteed + self.burst


@dataclass(frozen=True, slots=True)
class Gpu:
    """``domain``: what fails together, as a rack. ``kinds``: what it can be. ``takes_new``: False while suspect or
    draining; what sits there stays until it is moved. ``blocked``: MIG instances (profile, start) that nobody's seat
    has and nobody can remove.
    """

    id: str
    board: str
    node: str
    domain: str
    kinds: frozenset[Isolation] = EVERY_KIND
    takes_new: bool = True
    blocked: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Seat:
    """``start``: the first of its units in the GPU's cut. ``burst``: beyond what is guaranteed, so first to go."""

    replica: str
    demand: str
    trust: str
    gpu: str
    slot: Slot
    start: int
    since: float = 0.0
    burst: bool = False

    @property
    def place(self) -> tuple[str, Slot, int]:
        return self.gpu, self.slot, self.start


@dataclass(frozen=True)
class Fleet:
    """``cached``: (node, model) where the weights lie already."""

    gpus: tuple[Gpu, ...]
    seats: tuple[Seat, ...] = ()
    cached: frozenset[tuple[str, str]] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Pending:
    """A replica or a demand that found no place. ``reason``: for a person; ``short``: goodput that is missing."""

    demand: str
    reason: str
    short: float = 0.0
