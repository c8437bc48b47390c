"""How each type of GPU can be cut: profiles, legal starts and sizes, read from ``boards.json``. Pure.

A cut is a table of profiles over units of one GPU. A GPU is in one cut at a time:

    whole   one profile of all units
    mig     NVIDIA's profiles; a unit is a memory slice. Instances share neither memory nor faults
    shares  equal parts for MPS or time-slices; they share faults

Nothing here computes with a number of slices: what differs between boards is in the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

CutName = Literal["whole", "mig", "shares"]
Variant = Literal["base", "double_memory", "media", "no_media", "all_media", "graphics"]
# The variants whose instances serve language models; the others differ in engines for video and graphics.
SERVING: tuple[Variant, ...] = ("base", "double_memory")
WHOLE = "whole"
_TABLE = Path(__file__).with_name("boards.json")
_MIB = 1 << 20


class UnknownBoard(LookupError):
    """No such type of GPU in the table; the text names those that are."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of instance. ``size`` and ``starts`` in units of its cut; ``memory_mib``: what is usable at least.

    ``id`` is the board's number, which creation takes; ``enum`` is NVML's, which the query of a profile takes. Both
    are None outside MIG. ``only_beside``: the variants that may exist at the same time; empty means all.
    """

    name: str
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    sms: int
    max_instances: int
    variant: Variant = "base"
    slices: int = 0
    id: int | None = None
    enum: int | None = None
    copy_engines: int = 0
    decoders: int = 0
    jpegs: int = 0
    ofas: int = 0
    only_beside: tuple[Variant, ...] = ()

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * _MIB


@dataclass(frozen=True)
class Cut:
    """``units``: how many a GPU has in this cut. ``ofas``: optical-flow engines that all instances together have."""

    name: CutName
    units: int
    profiles: tuple[Profile, ...]
    ofas: int = 0

    def profile(self, name: str) -> Profile:
        """Raises ``LookupError`` for a name that the cut does not have."""
        for profile in self.profiles:
            if profile.name == name:
                return profile
        known = ", ".join(profile.name for profile in self.profiles)
        raise LookupError(f"no profile {name!r} in the cut {self.name}; it has {known}")

    def profile_by_id(self, number: int) -> Profile:
        """By the board's own number: names differ by driver. Raises ``LookupError``."""
        for profile in self.profiles:
            if profile.id == number:
                return profile
        raise LookupError(f"no profile with id {number} in the cut {self.name}")

    def serving(self) -> tuple[str, ...]:
        """Names of the profiles that serve language models."""
        return tuple(profile.name for profile in self.profiles if profile.variant in SERVING)


@dataclass(frozen=True)
class Board:
    """One type of GPU. ``sms`` and bandwidth: of the whole GPU, outside MIG. ``evidence``: how well each is known.

    ``mig_mode_needs_reset``: MIG mode changes with a reset only, and outlives a reboot.
    """

    key: str
    name: str
    pci_device_ids: tuple[str, ...]
    architecture: str
    mig_mode_needs_reset: bool
    sms: int
    bandwidth_gb_per_s: int
    mig: Cut
    parts: tuple[int, ...]
    mps_chunk_sms: int
    mps_max_clients: int
    evidence: Mapping[str, str]
    note: str = ""

    @cached_property
    def memory_mib(self) -> int:
        """Of the whole GPU: what the largest instance can use, which the GPU outside MIG has at least."""
        return max(profile.memory_mib for profile in self.mig.profiles)

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * _MIB

    @cached_property
    def whole(self) -> Cut:
        profile = Profile(WHOLE, self.mig.units, (0,), self.memory_mib, self.sms, 1)
        return Cut("whole", self.mig.units, (profile,))

    @cached_property
    def shares(self) -> Cut:
        """Part n has a share of 1/n of memory and of the chunks of SMs that MPS hands out, both rounded down."""
        grains = max(self.parts)
        chunks = self.sms // self.mps_chunk_sms
        profiles = []
        for part in self.parts:
            size = grains // part
            starts = tuple(range(0, grains, size))
            sms = chunks // part * self.mps_chunk_sms
            profiles.append(Profile(f"1/{part}", size, starts, self.memory_mib // part, sms, part))
        return Cut("shares", grains, tuple(profiles))

    @cached_property
    def units(self) -> int:
        """The finest units, of which those of each cut are multiples: who owns what is written down in them."""
        return math.lcm(self.mig.units, self.shares.units)

    def cut(self, name: CutName) -> Cut:
        return {"whole": self.whole, "mig": self.mig, "shares": self.shares}[name]


@cache
def boards() -> Mapping[str, Board]:
    """Every board of the table by its key, as ``h100-sxm-80gb``."""
    table = json.loads(_TABLE.read_text())
    parts = tuple(table["shares"]["parts"])
    if any(larger % smaller for smaller, larger in pairwise(parts)):
        raise ValueError(f"{_TABLE.name}: shares {parts} must each be a multiple of the one before")
    return {key: _board(key, row, parts) for key, row in table["boards"].items()}


def board(key: str) -> Board:
    """Raises ``UnknownBoard``."""
    try:
        return boards()[key]
    except KeyError:
        raise UnknownBoard(f"no GPU type {key!r}; known are {', '.join(boards())}") from None


def board_of_pci(device_id: str) -> Board:
    """By the PCI device's four hexadecimal digits, as ``2330``. Raises ``UnknownBoard``."""
    wanted = device_id.upper().removeprefix("0X")
    for found in boards().values():
        if wanted in found.pci_device_ids:
            return found
    raise UnknownBoard(f"no GPU type with the PCI device {device_id}")


def _board(key: str, row: Mapping[str, Any], parts: tuple[int, ...]) -> Board:
    profiles = tuple(_profile(found) for found in row["profiles"])
    cut = Cut("mig", row["memory_units"], profiles, ofas=max(profile.ofas for profile in profiles))
    _check(key, cut.units, profiles)
    return Board(
        key=key,
        name=row["name"],
        pci_device_ids=tuple(row["pci_device_ids"]),
        architecture=row["architecture"],
        mig_mode_needs_reset=row["mig_mode_needs_reset"],
        sms=row["sms"],
        bandwidth_gb_per_s=row["bandwidth_gb_per_s"],
        mig=cut,
        parts=parts,
        mps_chunk_sms=row["mps"]["chunk_sms"],
        mps_max_clients=row["mps"]["max_clients"],
        evidence=row["evidence"],
        note=row.get("note", ""),
    )


def _profile(row: Mapping[str, Any]) -> Profile:
    return Profile(**{**row, "starts": tuple(row["starts"]), "only_beside": tuple(row.get("only_beside", ()))})


def _check(key: str, units: int, profiles: Iterable[Profile]) -> None:
    """A table that contradicts itself stops the start."""
    seen: set[object] = set()
    for profile in profiles:
        if any(not 0 <= start <= units - profile.size for start in profile.starts):
            raise ValueError(f"{key} {profile.name}: starts {profile.starts} leave the board's {units} units")
        for number in (profile.name, ("id", profile.id), ("enum", profile.enum)):
            if number in seen:
                raise ValueError(f"{key}: {number} stands twice")
            seen.add(number)
