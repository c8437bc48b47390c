"""What goes wrong with simulated GPUs, on request: one JSON file in the agent's folder, read again when it changes.

    {"signals":   {"DEVICE": {"ecc_uncorrected": 1, "thermal_slowdown": true, "lost": true, ...}},
     "xids":      [{"device": "DEVICE", "code": 31, "gi_id": 9}],
     "processes": [{"device": "DEVICE", "gi_id": 9, "pid": 123, "bytes": 1000}],
     "leaks":     [{"device": "DEVICE", "gi_id": 9}]}

DEVICE is an index or a UUID; ``gi_id`` absent means the whole device. ``signals`` are levels. ``xids`` are only ever
appended to: an agent reports those that came since it started. ``processes`` are there beside the real runtimes, and
``leaks`` are instances that a handle keeps in use although no process is on them. No file means that all is well.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from gpuruntime.protocol import DeviceSignals

log = structlog.get_logger(__name__)


class InjectedXid(msgspec.Struct, kw_only=True, omit_defaults=True):
    device: str | int
    code: int
    gi_id: int | None = None


class InjectedProcess(msgspec.Struct, kw_only=True, omit_defaults=True):
    device: str | int
    pid: int
    bytes: int = 0
    gi_id: int | None = None
    mps: bool = False


class InjectedLeak(msgspec.Struct, kw_only=True):
    device: str | int
    gi_id: int


class Injections(msgspec.Struct, kw_only=True, omit_defaults=True):
    signals: dict[str, DeviceSignals] = {}
    xids: list[InjectedXid] = []
    processes: list[InjectedProcess] = []
    leaks: list[InjectedLeak] = []


class Injected:
    """The file as it is now. A damaged one counts as none, and is told of once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: tuple[int, int, int] | None = None
        self._content = Injections()

    def read(self) -> Injections:
        try:
            stat = self.path.stat()
        except OSError:
            self._version, self._content = None, Injections()
            return self._content
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if version != self._version:
            self._version = version
            try:
                self._content = msgspec.json.decode(self.path.read_bytes(), type=Injections)
            except (OSError, msgspec.DecodeError) as error:
                log.warning("injections ignored", path=str(self.path), reason=str(error))
                self._content = Injections()
        return self._content
