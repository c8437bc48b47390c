"""What the agent asks of a kind of hardware. One file a kind stands beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gpuruntime.protocol import Device

ProviderName = Literal["nvml", "cpu", "simulated"]


class ProviderError(ValueError):
    """The node's hardware, or the file that describes it, cannot be used; the text says what to change."""


@dataclass(frozen=True)
class Resident:
    """A live replica on a device: what a provider without counters of its own derives its use from."""

    device_uuid: str
    pid: int
    memory_bytes: int


@dataclass(frozen=True)
class Host:
    """The machine as the node presents it."""

    cpu_count: int
    memory_bytes: int


class Provider(Protocol):
    """Inventory and use of one node's devices. Calls return within milliseconds and never raise once constructed."""

    name: ProviderName

    def host(self) -> Host: ...

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        """Every device with its use at this moment, ordered by index; uuids are stable over restarts."""
        ...
