"""Two GPUs of a board behind the mock of NVML, with a hand on what goes on there beside the agent."""

from __future__ import annotations

from pathlib import Path

from helpers.mocknvml.control import Machine
from scheduler.node.providers.base import Instance
from scheduler.node.providers.nvml import NvmlProvider
from scheduler.node.providers.nvml_cutter import NvmlCutter
from scheduler.node.providers.nvml_permissions import Permissions

DEVICES = 2


class MockedRig:
    """The provider of real GPUs, over the mock of NVML."""

    def __init__(self, folder: Path, board: str, devices: int = DEVICES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.machine = Machine.create(folder / "nvml-state", [board] * devices)
        self.uuids = list(self.machine.uuids)
        self._leaked: list[tuple[str, int]] = []
        self._boot = 1
        self.provider = self._start()

    @property
    def boot(self) -> str:
        return f"boot-{self._boot}"

    def _start(self) -> NvmlProvider:
        self.machine.activate()
        return NvmlProvider(node="n", permissions=Permissions())

    @property
    def cutter(self) -> NvmlCutter:
        return self.provider.cutter

    def add_process(self, device_uuid: str, gi_id: int | None, pid: int, used_bytes: int) -> None:
        self.machine.add_process(device_uuid, pid, used_bytes, gi_id)

    def remove_process(self, pid: int) -> None:
        self.machine.end_process(pid)

    def leak_handle(self, device_uuid: str, gi_id: int) -> None:
        self.machine.leak(device_uuid, gi_id)
        self._leaked.append((device_uuid, gi_id))

    def mend(self) -> None:
        for device_uuid, gi_id in self._leaked:
            self.machine.release(device_uuid, gi_id)
        self._leaked.clear()

    def foreign_create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        self.machine.outside_create(device_uuid, profile_id, start)
        there = self.cutter.instances(device_uuid)
        return next(found for found in there if (found.profile_id, found.start) == (profile_id, start))

    def foreign_destroy(self, device_uuid: str, gi_id: int) -> None:
        self.machine.outside_destroy(device_uuid, gi_id)

    def xid(self, device_uuid: str, code: int, gi_id: int | None = None) -> None:
        self.machine.xid(device_uuid, code, gi_id)

    def lose(self, device_uuid: str, lost: bool = True) -> None:
        self.machine.set(device_uuid, lost=int(lost))

    def reboot(self) -> None:
        self._boot += 1
        self.provider.close()
        self.machine.reboot()
        self.provider = self._start()


def nvml_over_mock(folder: Path, board: str) -> MockedRig:
    return MockedRig(folder, board)
