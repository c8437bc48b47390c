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
from scheduler.geometry.boards import board
from scheduler.node.paths import boot_id
from scheduler.node.providers.base import Host, MigMode, ProviderName, Resident
from scheduler.node.providers.fleet_file import read_modes, read_node
from scheduler.node.providers.injections import Injected
from scheduler.node.providers.kinds import of_the_other_mode, until_reset
from scheduler.node.providers.simulated_cutter import SimulatedCutter
from scheduler.node.slices import words

INJECTIONS = "injections.json"


class SimulatedProvider:
    """``state``: the agent's folder; None: GPUs that nothing can be done to. ``boot``: this boot of the machine."""

    name: ProviderName = "simulated"

    def __init__(self, *, node: str, path: Path, state: Path | None = None, boot: str | None = None) -> None:
        self._devices, self._host = read_node(path, node)
        self._modes = read_modes(path, node)
        self._busy = BusyMeter()
        self._injected = Injected(state / INJECTIONS) if state is not None else None
        boards = {device.uuid: device.board for device in self._devices if device.board}
        self.cutter: SimulatedCutter | None = None
        if state is not None and self._injected is not None and boards:
            uuids = [device.uuid for device in self._devices]
            cuts = state / "cuts.json"
            self.cutter = SimulatedCutter(
                cuts, boards, uuids, self._injected, boot=boot or boot_id(), modes=self._modes
            )

    def host(self) -> Host:
        return self._host

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        busy = self._busy.measure(residents)
        if self.cutter is not None:
            self.cutter.residents = tuple(residents)
        modes = self._fixed_modes()
        return [
            msgspec.structs.replace(
                self._offered(device, modes.get(device.uuid)),
                memory_used_bytes=min(device.memory_bytes, self._used(device, residents)),
                utilisation=busy.get(device.uuid, 0.0),
                signals=self._signals(device),
            )
            for device in self._devices
        ]

    def _fixed_modes(self) -> dict[str, MigMode]:
        """MIG mode of the devices that only an operator switches."""
        fixed = [one.uuid for one in self._devices if one.board and board(one.board).mig_mode_needs_reset]
        if fixed and self.cutter is not None:
            return self.cutter.modes(fixed)
        said = {name: self._modes.get(name, False) for name in fixed}
        return {name: MigMode(current=on, pending=on) for name, on in said.items()}

    def _offered(self, device: Device, mode: MigMode | None) -> Device:
        """``device`` without what it cannot be while its mode stays."""
        if mode is None:
            return device
        if mode.current != mode.pending:
            by_mode = until_reset(mode, "reboot the node")
        else:
            switch = f"say `mig = {'false' if mode.current else 'true'}` of it in the fleet file"
            by_mode = of_the_other_mode(mode, words.mode_needs_reset(mode.current, switch))
        unable = {str(kind): why for kind, why in by_mode.items()} | device.unable
        kinds = [kind for kind in device.kinds if kind not in unable]
        return msgspec.structs.replace(device, kinds=kinds, unable=unable)

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
