"""Devices to cut in tests, with a hand on what goes on there beside the agent: the same for every implementation.

``simulated``        the provider of a fleet file
``nvml_over_mock``   the provider of real GPUs, over a library of ours in NVML's place
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from helpers.nvml_rig import nvml_over_mock
from scheduler.node.paths import write_atomically
from scheduler.node.providers.base import Cutter, Instance, Provider
from scheduler.node.providers.injections import (
    Injected,
    InjectedLeak,
    InjectedProcess,
    InjectedXid,
    Injections,
)
from scheduler.node.providers.simulated import INJECTIONS, SimulatedProvider
from scheduler.node.providers.simulated_cutter import SimulatedCutter

__all__ = ["DEVICES", "Rig", "SimulatedRig", "nvml_over_mock", "simulated"]

DEVICES = 2


class Rig(Protocol):
    """A node with two devices of one board. ``provider`` is another one after ``reboot``."""

    provider: Provider

    @property
    def cutter(self) -> Cutter: ...

    @property
    def uuids(self) -> list[str]: ...

    def add_process(self, device_uuid: str, gi_id: int | None, pid: int, used_bytes: int) -> None: ...

    def remove_process(self, pid: int) -> None: ...

    def leak_handle(self, device_uuid: str, gi_id: int) -> None:
        """From now on the driver says of this instance that it is in use; ``mend`` ends it."""
        ...

    def mend(self) -> None: ...

    def foreign_create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        """As another tool does it, with a session of its own."""
        ...

    def foreign_destroy(self, device_uuid: str, gi_id: int) -> None: ...

    def xid(self, device_uuid: str, code: int, gi_id: int | None = None) -> None: ...

    def reboot(self) -> None: ...


class SimulatedRig:
    """The simulated provider, as quick as it can be."""

    def __init__(self, folder: Path, board: str, devices: int = DEVICES) -> None:
        self._folder = folder
        self._board = board
        self._boot = 1
        self._injections = Injections()
        self._fleet = folder / "fleet.toml"
        folder.mkdir(parents=True, exist_ok=True)
        self._fleet.write_text(f'[[node]]\nname = "n"\n[[node.gpu]]\nboard = "{board}"\ncount = {devices}\n')
        self.provider = self._start()
        self.uuids = [device.uuid for device in self.provider.devices([])]

    @property
    def boot(self) -> str:
        return f"boot-{self._boot}"

    @property
    def cutter(self) -> SimulatedCutter:
        assert self.provider.cutter is not None
        return self.provider.cutter

    def _start(self) -> SimulatedProvider:
        provider = SimulatedProvider(node="n", path=self._fleet, state=self._folder, boot=self.boot)
        assert provider.cutter is not None
        provider.cutter.ask_s = provider.cutter.change_s = 0
        return provider

    def _inject(self, **changes: Any) -> None:
        self._injections = msgspec.structs.replace(self._injections, **changes)
        write_atomically(self._folder / INJECTIONS, msgspec.json.encode(self._injections))

    def add_process(self, device_uuid: str, gi_id: int | None, pid: int, used_bytes: int) -> None:
        found = InjectedProcess(device=device_uuid, gi_id=gi_id, pid=pid, bytes=used_bytes)
        self._inject(processes=[*self._injections.processes, found])

    def remove_process(self, pid: int) -> None:
        self._inject(processes=[process for process in self._injections.processes if process.pid != pid])

    def leak_handle(self, device_uuid: str, gi_id: int) -> None:
        self._inject(leaks=[*self._injections.leaks, InjectedLeak(device=device_uuid, gi_id=gi_id)])

    def mend(self) -> None:
        self._inject(leaks=[])

    def lose(self, device_uuid: str, lost: bool = True) -> None:
        signals = self.provider.devices([])[0].signals
        assert signals is not None
        self._inject(signals={device_uuid: msgspec.structs.replace(signals, lost=True)} if lost else {})

    def foreign_create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        return self._other().create(device_uuid, profile_id, start)

    def foreign_destroy(self, device_uuid: str, gi_id: int) -> None:
        self._other().destroy(device_uuid, gi_id)

    def _other(self) -> SimulatedCutter:
        boards = dict.fromkeys(self.uuids, self._board)
        injected = Injected(self._folder / INJECTIONS)
        cuts = self._folder / "cuts.json"
        return SimulatedCutter(cuts, boards, self.uuids, injected, boot=self.boot, ask_s=0, change_s=0)

    def xid(self, device_uuid: str, code: int, gi_id: int | None = None) -> None:
        self._inject(xids=[*self._injections.xids, InjectedXid(device=device_uuid, code=code, gi_id=gi_id)])

    def reboot(self) -> None:
        self._boot += 1
        self._inject(processes=[], leaks=[])
        self.provider = self._start()


def simulated(folder: Path, board: str) -> SimulatedRig:
    return SimulatedRig(folder, board)
