"""What the agent asks of a kind of hardware. One file a kind stands beside this one.

Provider   inventory and use; never raises once constructed
Cutter     makes and removes what a GPU is cut into; calls may take seconds, and raise ``CutError``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from gpuruntime.protocol import Device

ProviderName = Literal["nvml", "cpu", "simulated"]


class ProviderError(ValueError):
    """The node's hardware, or the file that describes it, cannot be used; the text says what to change."""


class CutCode(StrEnum):
    """Why a call failed, as far as that decides what to do next; NVML's number is in the error's text."""

    NO_ROOM = "no room"
    IN_USE = "in use"
    NOT_FOUND = "not found"
    NO_PERMISSION = "no permission"
    NOT_SUPPORTED = "not supported"
    LOST = "lost"
    OTHER = "other"


class CutError(RuntimeError):
    def __init__(self, code: CutCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Resident:
    """A live replica on a device: what a provider without counters of its own derives its use from.

    ``slice_uuid``: of the MIG instance that it has; empty where it has the device itself.
    """

    device_uuid: str
    pid: int
    memory_bytes: int
    slice_uuid: str = ""


@dataclass(frozen=True)
class Host:
    """The machine as the node presents it."""

    cpu_count: int
    memory_bytes: int


class Provider(Protocol):
    """Inventory and use of one node's devices. Calls return within milliseconds and never raise once constructed."""

    name: ProviderName

    @property
    def cutter(self) -> Cutter | None:
        """None where nothing can be cut."""
        ...

    def host(self) -> Host: ...

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        """Every device with its use at this moment, ordered by index; uuids are stable over restarts.

        Signals come without XIDs: the slice keeper counts them, from the cutter's events. It calls the cutter in a
        thread of its own.
        """
        ...


@dataclass(frozen=True)
class MigMode:
    """``pending`` differs from ``current`` where the GPU must be reset first (Ampere); nothing is cut until then."""

    current: bool
    pending: bool


@dataclass(frozen=True)
class Instance:
    """A MIG instance with one compute instance of its full width. ``uuid`` empty: without one, so not usable yet.

    Identity is (device, start, profile): ``uuid`` is new with every making, ``gi_id`` may come again.
    ``memory_bytes``: what can be used of it; ``used_bytes``: what is.
    """

    device_uuid: str
    gi_id: int
    profile_id: int
    start: int
    size: int
    uuid: str
    memory_bytes: int
    used_bytes: int


@dataclass(frozen=True)
class Process:
    """A process on a device. ``gi_id`` None: of the whole device; ``mps``: it is a client of an MPS server."""

    pid: int
    gi_id: int | None
    used_bytes: int
    mps: bool = False


@dataclass(frozen=True)
class XidEvent:
    """``gi_id`` None: of the whole device."""

    device_uuid: str
    code: int
    gi_id: int | None = None


class Cutter(Protocol):
    """Every call may be repeated after any half-done one. All raise ``CutError``; devices are named by UUID."""

    def mig_mode(self, device_uuid: str) -> MigMode: ...

    def set_mig_mode(self, device_uuid: str, enabled: bool) -> MigMode:
        """The mode afterwards. ``IN_USE`` while anything runs on the device or an instance is there."""
        ...

    def instances(self, device_uuid: str) -> list[Instance]:
        """All of the device, whoever made them, those without a compute instance too; empty outside MIG mode."""
        ...

    def create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        """The instance at exactly ``start``, with its compute instance; one that is half there is completed."""
        ...

    def destroy(self, device_uuid: str, gi_id: int) -> None:
        """Compute instances first. One that is gone already is no error. ``IN_USE`` while a process or handle holds
        it.
        """
        ...

    def set_exclusive(self, device_uuid: str, exclusive: bool) -> None:
        """Compute mode EXCLUSIVE_PROCESS, as an MPS server alone on its GPU needs it, or DEFAULT. Not in MIG mode."""
        ...

    def processes(self, device_uuid: str) -> list[Process]: ...

    def used_bytes(self, device_uuid: str) -> int:
        """Of the whole device, the driver's reserve included."""
        ...

    def xid_events(self) -> list[XidEvent]:
        """Those since the last call, of all devices; the oldest first."""
        ...
