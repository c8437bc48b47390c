"""Reads how a real GPU is cut. Functions raise ``NVMLError``; names and sizes are the board's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any

import pynvml

from scheduler.node.providers.base import CutCode, CutError, Instance, MigMode, Process
from scheduler.node.providers.nvml_session import Gpu

NO_ID = 0xFFFFFFFF
_SHARED_ENGINES = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
_MOST_PROFILES = 64  # the driver says where its numbers end; this bounds one that never does
# Something was destroyed between two calls.
VANISHED = (pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument)
_UNKNOWN_TO_DRIVER = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)


@dataclass(frozen=True)
class Profile:
    """Of GPU instances or of compute instances. ``most``: how many there can be, and so the room a list needs."""

    id: int
    slices: int
    most: int
    memory_bytes: int = 0


@dataclass(frozen=True)
class Compute:
    """``device``: the MIG device that it is to everyone else."""

    handle: Any
    slices: int
    device: Any


@dataclass(frozen=True)
class Found:
    """A GPU instance that is there."""

    handle: Any
    id: int
    profile: Profile
    start: int
    size: int


class Layout:
    """What profiles a GPU has never changes, and is asked once."""

    def __init__(self) -> None:
        self._profiles: dict[str, tuple[Profile, ...]] = {}
        self._widths: dict[tuple[str, int], tuple[Profile, ...]] = {}

    def profiles(self, gpu: Gpu) -> tuple[Profile, ...]:
        found = self._profiles.get(gpu.uuid)
        if found is None:
            # Of the two versions of this call only the first answers while MIG mode is off.
            infos = _numbered(lambda number: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu.handle, number, version=1))
            found = tuple(Profile(i.id, i.sliceCount, i.instanceCount, i.memorySizeMB << 20) for i in infos)
            self._profiles[gpu.uuid] = found
        return found

    def profile(self, gpu: Gpu, profile_id: int) -> Profile:
        """Raises ``CutError`` for one that the board does not have."""
        for found in self.profiles(gpu):
            if found.id == profile_id:
                return found
        known = ", ".join(str(found.id) for found in self.profiles(gpu)) or "none"
        raise CutError(CutCode.OTHER, f"{gpu.uuid} has no MIG profile {profile_id}; it has {known}")

    def all(self, gpu: Gpu) -> list[Found]:
        """GPU instances, not MIG devices: of one without a compute instance there is no device."""
        found = []
        for profile in self.profiles(gpu):
            handles, count = (pynvml.c_nvmlGpuInstance_t * profile.most)(), c_uint(0)
            pynvml.nvmlDeviceGetGpuInstances(gpu.handle, profile.id, handles, byref(count))
            for handle in handles[: count.value]:
                with contextlib.suppress(*VANISHED):
                    info = pynvml.nvmlGpuInstanceGetInfo(handle)
                    found.append(Found(handle, info.id, profile, info.placement.start, info.placement.size))
        return found

    def at(self, gpu: Gpu, profile: Profile, start: int) -> Found | None:
        return next((one for one in self.all(gpu) if one.profile.id == profile.id and one.start == start), None)

    def by_id(self, gpu: Gpu, gi_id: int) -> Found | None:
        return next((one for one in self.all(gpu) if one.id == gi_id), None)

    def overlapping(self, gpu: Gpu, start: int, size: int) -> list[Found]:
        return [one for one in self.all(gpu) if one.start < start + size and start < one.start + one.size]

    def widths(self, gpu: Gpu, found: Found) -> tuple[Profile, ...]:
        """The profiles of compute instances that ``found`` can have."""
        key = (gpu.uuid, found.profile.id)
        if key not in self._widths:
            ask = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
            infos = _numbered(lambda number: ask(found.handle, number, _SHARED_ENGINES, version=1))
            self._widths[key] = tuple(Profile(info.id, info.sliceCount, info.instanceCount) for info in infos)
        return self._widths[key]

    def computes(self, gpu: Gpu, found: Found) -> list[Compute]:
        computes = []
        for width in self.widths(gpu, found):
            handles, count = (pynvml.c_nvmlComputeInstance_t * width.most)(), c_uint(0)
            pynvml.nvmlGpuInstanceGetComputeInstances(found.handle, width.id, handles, byref(count))
            for handle in handles[: count.value]:
                with contextlib.suppress(*VANISHED):
                    device = pynvml.nvmlComputeInstanceGetInfo(handle).device
                    computes.append(Compute(handle, width.slices, device))
        return computes

    def full(self, gpu: Gpu, found: Found) -> Compute | None:
        """The compute instance of the whole width."""
        return next((one for one in self.computes(gpu, found) if one.slices == found.profile.slices), None)

    def described(self, gpu: Gpu, found: Found) -> Instance:
        uuid, memory_bytes, used_bytes = "", found.profile.memory_bytes, 0
        # Removed by someone else while it is read, it is told without a UUID; the next look does not see it.
        with contextlib.suppress(*VANISHED):
            compute = self.full(gpu, found)
            if compute is not None:
                memory_bytes, used_bytes = usable_and_used(compute.device)
                uuid = pynvml.nvmlDeviceGetUUID(compute.device)
        return Instance(
            device_uuid=gpu.uuid,
            gi_id=found.id,
            profile_id=found.profile.id,
            start=found.start,
            size=found.size,
            uuid=uuid,
            memory_bytes=memory_bytes,
            used_bytes=used_bytes,
        )


def _numbered(info_of: Callable[[int], Any]) -> list[Any]:
    """The answer for each number; INVALID_ARGUMENT ends them, one that this board does not have is left out."""
    found = []
    for number in range(_MOST_PROFILES):
        try:
            found.append(info_of(number))
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            break
    return found


def usable_and_used(handle: Any) -> tuple[int, int]:
    """Bytes without the driver's reserve, and those taken of them; drivers before 510 count the reserve in."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except _UNKNOWN_TO_DRIVER:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return int(memory.total), int(memory.used)
    return int(memory.total - memory.reserved), int(memory.used)


def mode_of(gpu: Gpu) -> MigMode:
    current, pending = pynvml.nvmlDeviceGetMigMode(gpu.handle)
    return MigMode(bool(current), bool(pending))


def is_cut(gpu: Gpu) -> bool:
    try:
        return mode_of(gpu).current
    except pynvml.NVMLError_NotSupported:
        return False


def placement_at(gpu: Gpu, profile: Profile, start: int) -> Any:
    """The board's own legal placement that begins there. Raises ``CutError`` where none does."""
    count = c_uint(0)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu.handle, profile.id, None, byref(count))
    legal = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu.handle, profile.id, legal, byref(count))
    for placement in legal[: count.value]:
        if placement.start == start:
            return placement
    starts = ", ".join(str(one.start) for one in legal[: count.value])
    raise CutError(CutCode.OTHER, f"profile {profile.id} of {gpu.uuid} begins at {starts}, never at {start}")


def processes_of(gpu: Gpu) -> list[Process]:
    found: dict[int, Process] = {}
    for mps, listed in ((False, pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu.handle)), (True, _clients(gpu))):
        for one in listed:
            gi_id = None if one.gpuInstanceId == NO_ID else int(one.gpuInstanceId)
            found[one.pid] = Process(int(one.pid), gi_id, int(one.usedGpuMemory or 0), mps)
    return list(found.values())


def _clients(gpu: Gpu) -> list[Any]:
    try:
        return list(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu.handle))
    except _UNKNOWN_TO_DRIVER:
        return []


def why_held(gpu: Gpu, gi_id: int) -> str:
    pids = [str(process.pid) for process in processes_of(gpu) if process.gi_id == gi_id]
    return f"held by pid {', '.join(pids)}" if pids else "no process is on it: some tool keeps a handle of it open"
