"""GPUs that a fleet file makes up (``fleet_file``): the runtimes on them really run, on the CPU.

One file may describe many nodes; a process is the node whose name it was given. What a GPU is cut into, and what is
wrong with it, stand in the agent's folder, as they would in hardware: the one survives the agent, the other is put
there by whoever wants to see what happens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from gpuruntime.protocol import Device, DeviceSignals
from scheduler.node.paths import boot_id
from scheduler.node.providers.base import Host, ProviderName, Resident
from scheduler.node.providers.fleet_file import read_node
from scheduler.node.providers.injections import Injected
from scheduler.node.providers.simulated_cutter import SimulatedCutter

INJECTIONS = "injections.json"


class SimulatedProvider:
    """``state``: the agent's folder; None: GPUs that nothing can be done to. ``boot``: this boot of the machine."""

    name: ProviderName = "simulated"

    def __init__(self, *, node: str, path: Path, state: Path | None = None, boot: str | None = None) -> None:
        self._devices, self._host = read_node(path, node)
        self._busy = BusyMeter()
        self._injected = Injected(state / INJECTIONS) if state is not None else None
        boards = {device.uuid: device.board for device in self._devices if device.board}
        self.cutter: SimulatedCutter | None = None
        if state is not None and self._injected is not None and boards:
            uuids = [device.uuid for device in self._devices]
            cuts = state / "cuts.json"
            self.cutter = SimulatedCutter(cuts, boards, uuids, self._injected, boot=boot or boot_id())

    def host(self) -> Host:
        return self._host

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        busy = self._busy.measure(residents)
        if self.cutter is not None:
            self.cutter.residents = tuple(residents)
        return [
            msgspec.structs.replace(
                device,
                memory_used_bytes=min(device.memory_bytes, self._used(device, residents)),
                utilisation=busy.get(device.uuid, 0.0),
                signals=self._signals(device),
            )
            for device in self._devices
        ]

    def _used(self, device: Device, residents: Sequence[Resident]) -> int:
        used = sum(r.memory_bytes for r in residents if r.device_uuid == device.uuid)
        extra = self._injected.read().processes if self._injected is not None else []
        return used + sum(found.bytes for found in extra if str(found.device) in (device.uuid, str(device.index)))

    def _signals(self, device: Device) -> DeviceSignals | None:
        if not device.board or self._injected is None:
            return None
        signals = self._injected.read().signals
        return signals.get(device.uuid) or signals.get(str(device.index)) or DeviceSignals()


class BusyMeter:
    """Utilisation of a made-up device: its residents' processor time since the last look, of one core, up to 1."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._spent: dict[int, float] = {}

    def measure(self, residents: Sequence[Resident]) -> dict[str, float]:
        now = time.monotonic()
        elapsed, self._at = max(now - self._at, 1e-3), now
        busy: dict[str, float] = {}
        spent: dict[int, float] = {}
        for resident in residents:
            try:
                times = psutil.Process(resident.pid).cpu_times()
            except psutil.Error:
                continue
            spent[resident.pid] = times.user + times.system
            rise = spent[resident.pid] - self._spent.get(resident.pid, spent[resident.pid])
            busy[resident.device_uuid] = min(1.0, busy.get(resident.device_uuid, 0.0) + max(rise, 0.0) / elapsed)
        self._spent = spent
        return busy
