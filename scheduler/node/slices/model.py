"""What the parts of slice keeping tell each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuruntime.protocol import Device, SliceState

# More than this over what was used when a slice was made, and it is not empty yet.
SLACK_BYTES = 64 << 20
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 30.0


class SliceNotReady(RuntimeError):
    """A replica cannot have its slice yet; the text says why, for a person."""


@dataclass(frozen=True)
class Grant:
    """What a runtime gets of its slice: the device that it sees, the bytes that it may allot there, its environment."""

    device_uuid: str
    memory_bytes: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """A wanted slice as it was found. ``unsettled``: why nobody new may have it, though it is ready; else empty.

    ``lost``: it was there, and somebody took it away.
    """

    state: SliceState
    reason: str = ""
    uuid: str = ""
    unsettled: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False


class Holders(Protocol):
    """Which replicas have which slices at this moment."""

    def holder(self, slice_id: str) -> str:
        """The replica's id; empty: nobody's."""
        ...

    def holder_pid(self, slice_id: str) -> int:
        """Of its process, 0 while there is none; once it has left, of the last one."""
        ...


class Retries:
    """When what failed is due again, by name: 1 s later, then twice as long each time, at most 30 s."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float, str]] = {}

    def waits(self, name: str) -> str:
        """The reason it failed for, while its next try is not due; else empty."""
        failures, due, reason = self._failures.get(name, (0, 0.0, ""))
        return reason if failures and time.monotonic() < due else ""

    def failing(self, name: str) -> bool:
        """Whether it failed when it was last tried."""
        return name in self._failures

    def failed(self, name: str, reason: str) -> None:
        failures = self._failures.get(name, (0, 0.0, ""))[0] + 1
        pause = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 16))
        self._failures[name] = (failures, time.monotonic() + pause, reason)

    def worked(self, name: str) -> None:
        self._failures.pop(name, None)

    def forget(self, prefix: str) -> None:
        """What could not be done may be possible now: something near it changed."""
        for name in [name for name in self._failures if name.startswith(prefix)]:
            del self._failures[name]


def label(gpu: Device) -> str:
    """As people call it on its node: gpu-3."""
    return f"{'cpu' if gpu.kind == 'cpu' else 'gpu'}-{gpu.index}"
