"""NVIDIA GPUs, through the driver's management library (NVML).

A GPU whose type no table of geometries knows is offered whole. What the others can be is said by kind: all of
``protocol.SliceKind``, less what this process may not do, what the board does not, and what needs a reset by hand.
How busy it is, ``nvml_use`` says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import msgspec
import pynvml
from pynvml import NVMLError

from gpuruntime.protocol import Device, SliceKind
from scheduler.geometry.boards import board
from scheduler.node.providers.base import Host, MigMode, ProviderError, ProviderName, Resident
from scheduler.node.providers.cpu import memory_limit_bytes
from scheduler.node.providers.kinds import KINDS, of_the_other_mode, until_reset
from scheduler.node.providers.nvml_cutter import NvmlCutter
from scheduler.node.providers.nvml_health import Signals, XidEvents
from scheduler.node.providers.nvml_layout import usable_and_used
from scheduler.node.providers.nvml_permissions import GRANTS, Capability, Permissions
from scheduler.node.providers.nvml_session import Gpu, GpuLost, Session, SessionDown, said
from scheduler.node.providers.nvml_use import Use
from scheduler.node.slices import words

_ATTEMPTS = 2  # a session that went with its driver is opened again at once


class NvmlProvider:
    """``permissions``: what this process may do; by default what the kernel says of it.

    Raises ``ProviderError`` where there is no driver. One that goes away later makes its devices lost until it is back.
    """

    name: ProviderName = "nvml"

    def __init__(
        self, *, node: str, permissions: Permissions | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            self._session = Session(clock)
        except NVMLError as error:
            raise ProviderError(_no_driver(node, error)) from None
        self._permissions = permissions or Permissions.of_process()
        self._signals = Signals(self._session)
        self._xids = XidEvents(self._session)
        self._use = Use(self._session, clock)
        self._known: dict[str, Device] = {}
        self.cutter = NvmlCutter(self._session, self._xids)
        self._host = Host(cpu_count=len(os.sched_getaffinity(0)), memory_bytes=memory_limit_bytes())

    def host(self) -> Host:
        return self._host

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        for _ in range(_ATTEMPTS):
            try:
                gpus = self._session.gpus()
                self._xids.collect()
                seen = {uuid: self._device(gpu) for uuid, gpu in gpus.items()}
            except SessionDown as error:
                reason = f"no session with the driver: {error}"
            else:
                self._known.update(seen)
                gone = {uuid: self._lost(uuid, "the driver finds it no more") for uuid in self._known.keys() - seen}
                return sorted((seen | gone).values(), key=lambda device: device.index)
        return [self._lost(uuid, reason) for uuid in self._known]

    def close(self) -> None:
        self._session.close()

    # --- one device ----------------------------------------------------------------------------------------------

    def _device(self, gpu: Gpu) -> Device:
        try:
            return self._read(gpu)
        except GpuLost as error:
            if gpu.uuid not in self._known:
                self._known[gpu.uuid] = _unread(gpu)
            return self._lost(gpu.uuid, str(error))

    def _read(self, gpu: Gpu) -> Device:
        """Raises ``GpuLost`` and ``SessionDown``."""
        ask = self._session.ask
        usable, used = self._memory(gpu)
        mode = ask(gpu, pynvml.nvmlDeviceGetMigMode, default=None)
        mig = MigMode(bool(mode[0]), bool(mode[1])) if mode is not None else None
        power = ask(gpu, pynvml.nvmlDeviceGetPowerUsage, default=None)
        unable = self._unable(gpu, mig)
        return Device(
            index=gpu.index,
            uuid=gpu.uuid,
            name=gpu.name,
            kind="gpu",
            memory_bytes=usable,
            units=board(gpu.board).units if gpu.board else 1,
            memory_used_bytes=min(used, usable),
            utilisation=self._use.of(gpu, cut=mig is not None and mig.current),
            temperature_c=self._temperature(gpu),
            power_w=power / 1000 if power is not None else None,
            board=gpu.board,
            kinds=[kind for kind in KINDS if kind not in unable],
            unable={str(kind): reason for kind, reason in unable.items()},
            signals=self._signals.of(gpu),
        )

    def _memory(self, gpu: Gpu) -> tuple[int, int]:
        """Usable and used. MIG instances take some of the reserve: what a GPU once had without them is what it has."""
        found = self._session.ask(gpu, usable_and_used, default=None)
        known = self._known.get(gpu.uuid)
        before = known.memory_bytes if known is not None else 0
        if found is None:
            return before, 0
        return max(before, found[0]), found[1]

    def _temperature(self, gpu: Gpu) -> float | None:
        ask, sensor = self._session.ask, pynvml.NVML_TEMPERATURE_GPU
        found = ask(gpu, pynvml.nvmlDeviceGetTemperatureV, sensor, default=None)
        if found is None:  # drivers before 570 know only the older call
            found = ask(gpu, pynvml.nvmlDeviceGetTemperature, sensor, default=None)
        return float(found) if found is not None else None

    def _lost(self, uuid: str, reason: str) -> Device:
        return msgspec.structs.replace(
            self._known[uuid],
            memory_used_bytes=0,
            utilisation=None,
            temperature_c=None,
            power_w=None,
            kinds=[],
            unable=dict.fromkeys(KINDS, reason),
            signals=self._signals.lost(uuid),
        )

    # --- what it can be ------------------------------------------------------------------------------------------

    def _unable(self, gpu: Gpu, mode: MigMode | None) -> dict[SliceKind, str]:
        """What the GPU cannot be now, with the reason and what to do about it."""
        if not gpu.board:
            why = f"no table knows this type of GPU (PCI device {gpu.pci_device}), so it is used whole"
            return {"mig": why, "mps": why, "time-slice": why}
        if mode is None:
            return {"mig": "the driver offers no MIG on this GPU", **self._no_mps(gpu)}
        if mode.current != mode.pending:
            return until_reset(mode, f"`nvidia-smi --gpu-reset -i {gpu.uuid}`, with nothing on the GPU")
        kept = of_the_other_mode(mode, self._why_mode_stays(gpu, mode))
        return self._no_mig(gpu) | ({} if mode.current else self._no_mps(gpu)) | kept

    def _why_mode_stays(self, gpu: Gpu, mode: MigMode) -> str:
        if self._may_not("switch"):
            return f"MIG mode is {'on' if mode.current else 'off'}, and {GRANTS['switch'].format(uuid=gpu.uuid)}"
        if not gpu.resetless_mig:
            switch = f"nvidia-smi -i {gpu.uuid} -mig {int(not mode.current)}"
            reset = f"nvidia-smi --gpu-reset -i {gpu.uuid}"
            return words.mode_needs_reset(mode.current, f"`{switch}`, then `{reset}`")
        return ""

    def _no_mig(self, gpu: Gpu) -> dict[SliceKind, str]:
        lacking: tuple[Capability, ...] = ("monitor", "configure")
        return next(({"mig": GRANTS[one].format(uuid=gpu.uuid)} for one in lacking if self._may_not(one)), {})

    def _no_mps(self, gpu: Gpu) -> dict[SliceKind, str]:
        """Its daemon is alone on the GPU, which is a compute mode."""
        return {"mps": GRANTS["switch"].format(uuid=gpu.uuid)} if self._may_not("switch") else {}

    def _may_not(self, capability: Capability) -> bool:
        return capability in self._permissions.denied or capability in self.cutter.denied


def _unread(gpu: Gpu) -> Device:
    """Of a GPU that was lost between its being found and its being read."""
    memory = board(gpu.board).memory_bytes if gpu.board else 0
    units = board(gpu.board).units if gpu.board else 1
    return Device(
        index=gpu.index, uuid=gpu.uuid, name=gpu.name, kind="gpu", memory_bytes=memory, units=units, board=gpu.board
    )


def _no_driver(node: str, error: NVMLError) -> str:
    causes = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "libnvidia-ml.so.1 is not found: install NVIDIA's driver, or give the container the capability `utility`"
            " (NVIDIA_DRIVER_CAPABILITIES)"
        ),
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the kernel module is not loaded: `modprobe nvidia`, then `nvidia-smi`",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library and kernel module are of two versions: reboot the node",
        pynvml.NVML_ERROR_NO_PERMISSION: "the device files in /dev/nvidia* may not be opened by this user",
    }
    cause = causes.get(error.value, "`nvidia-smi` on the node may say more")
    without = "without GPUs a node joins with --provider cpu"
    return f"node {node} has no GPUs that NVML can reach, {said(error)}: {cause}; {without}"
