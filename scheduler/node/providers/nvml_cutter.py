"""Cuts real GPUs: MIG instances at exact places, compute mode, and who is on what.

NVML answers the same number for several causes (INSUFFICIENT_RESOURCES: the place is taken, or there is no room), and a
call that failed may have done its work. So after every failure the state decides, and the number is only told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import byref
from typing import Any

import pynvml
from pynvml import NVMLError

from scheduler.node.providers.base import CutCode, CutError, Instance, MigMode, Process, XidEvent
from scheduler.node.providers.nvml_health import XidEvents
from scheduler.node.providers.nvml_layout import (
    VANISHED,
    Found,
    Layout,
    Profile,
    is_cut,
    mode_of,
    placement_at,
    processes_of,
    why_held,
)
from scheduler.node.providers.nvml_permissions import GRANTS, Capability
from scheduler.node.providers.nvml_session import Gpu, Session, SessionDown, said

CODES = {
    pynvml.NVML_ERROR_NO_PERMISSION: CutCode.NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND: CutCode.NOT_FOUND,
    pynvml.NVML_ERROR_NOT_SUPPORTED: CutCode.NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: CutCode.NOT_SUPPORTED,
    pynvml.NVML_ERROR_IN_USE: CutCode.IN_USE,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: CutCode.NO_ROOM,
    pynvml.NVML_ERROR_GPU_IS_LOST: CutCode.LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: CutCode.LOST,
}


class NvmlCutter:
    """``denied``: what NVML has refused for want of permission, until it is allowed."""

    def __init__(self, session: Session, xids: XidEvents) -> None:
        self._session = session
        self._xids = xids
        self._layout = Layout()
        self.denied: set[Capability] = set()

    # --- MIG mode ------------------------------------------------------------------------------------------------

    def mig_mode(self, device_uuid: str) -> MigMode:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, "reading the MIG mode of"):
            return mode_of(gpu)

    def set_mig_mode(self, device_uuid: str, enabled: bool) -> MigMode:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, f"switching MIG {'on' if enabled else 'off'} on", "switch"):
            before = mode_of(gpu)
            if before.pending == enabled:
                return before
            if before.current != enabled:
                self._refuse_where_used(gpu, before)
            activation = pynvml.nvmlDeviceSetMigMode(gpu.handle, int(enabled))
            after = mode_of(gpu)
            if after.current == enabled:
                self._session.refetch(gpu)
            elif gpu.resetless_mig:
                # Someone holds the GPU whom no list shows. Left pending, it would switch at some later reset.
                pynvml.nvmlDeviceSetMigMode(gpu.handle, int(after.current))
                why = said(NVMLError(activation)) if activation else "it stayed as it was"
                raise CutError(CutCode.IN_USE, f"the MIG mode of {gpu.uuid} does not change: {why}")
            return after

    def _refuse_where_used(self, gpu: Gpu, mode: MigMode) -> None:
        there = [f"instance {found.id}" for found in self._layout.all(gpu)] if mode.current else []
        there += [f"pid {process.pid}" for process in processes_of(gpu)]
        if there:
            raise CutError(CutCode.IN_USE, f"the MIG mode of {gpu.uuid} cannot change: it has {', '.join(there)}")

    # --- instances -----------------------------------------------------------------------------------------------

    def instances(self, device_uuid: str) -> list[Instance]:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, "listing the instances of", "monitor"):
            if not is_cut(gpu):
                return []
            found = [self._layout.described(gpu, one) for one in self._layout.all(gpu)]
            return sorted(found, key=lambda one: one.start)

    def create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        gpu = self._gpu(device_uuid)
        what = f"making profile {profile_id} at {start} on"
        with self._told(gpu, what, "configure"):
            if not is_cut(gpu):
                raise CutError(CutCode.NOT_SUPPORTED, f"{what} {gpu.uuid}: its MIG mode is off")
            profile = self._layout.profile(gpu, profile_id)
            found = self._layout.at(gpu, profile, start) or self._make(gpu, profile, start)
            self._complete(gpu, found)
            return self._layout.described(gpu, found)

    def destroy(self, device_uuid: str, gi_id: int) -> None:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, f"removing instance {gi_id} of", "configure"):
            found = self._layout.by_id(gpu, gi_id) if is_cut(gpu) else None
            if found is None:
                return
            try:
                for compute in self._layout.computes(gpu, found):
                    with contextlib.suppress(*VANISHED):
                        pynvml.nvmlComputeInstanceDestroy(compute.handle)
                pynvml.nvmlGpuInstanceDestroy(found.handle)
            except NVMLError as error:
                self._session.check(error, gpu.epoch)
                if self._layout.by_id(gpu, gi_id) is None:
                    return
                if error.value == pynvml.NVML_ERROR_IN_USE:
                    text = f"instance {gi_id} of {gpu.uuid} is in use: {why_held(gpu, gi_id)}, {said(error)}"
                    raise CutError(CutCode.IN_USE, text) from None
                raise

    def _make(self, gpu: Gpu, profile: Profile, start: int) -> Found:
        placement = placement_at(gpu, profile, start)
        failure: NVMLError | None = None
        try:
            pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu.handle, profile.id, byref(placement))
        except NVMLError as error:
            self._session.check(error, gpu.epoch)
            failure = error
        found = self._layout.at(gpu, profile, start)
        if found is not None:
            return found
        if failure is None:
            raise CutError(CutCode.OTHER, f"profile {profile.id} at {start} on {gpu.uuid} was made and is gone again")
        if failure.value == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES:
            raise self._no_room(gpu, profile, placement, failure)
        raise failure

    def _no_room(self, gpu: Gpu, profile: Profile, placement: Any, error: NVMLError) -> CutError:
        others = [f"instance {one.id}" for one in self._layout.overlapping(gpu, placement.start, placement.size)]
        why = f"{' and '.join(others)} there" if others else "the board allows no more of it beside what is there"
        text = f"no room for profile {profile.id} at {placement.start} on {gpu.uuid}: {why}, {said(error)}"
        return CutError(CutCode.NO_ROOM, text)

    def _complete(self, gpu: Gpu, found: Found) -> None:
        """Gives it the compute instance of its full width, where that is not there."""
        if self._layout.full(gpu, found) is not None:
            return
        widths = self._layout.widths(gpu, found)
        width = next((one for one in widths if one.slices == found.profile.slices), None)
        if width is None:
            text = f"instance {found.id} of {gpu.uuid} can have no compute instance of its whole width"
            raise CutError(CutCode.NOT_SUPPORTED, text)
        try:
            pynvml.nvmlGpuInstanceCreateComputeInstance(found.handle, width.id)
        except NVMLError as error:
            self._session.check(error, gpu.epoch)
            if self._layout.full(gpu, found) is None:
                raise

    # --- compute mode, processes, memory, events -----------------------------------------------------------------

    def set_exclusive(self, device_uuid: str, exclusive: bool) -> None:
        gpu = self._gpu(device_uuid)
        wanted = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if exclusive else pynvml.NVML_COMPUTEMODE_DEFAULT
        with self._told(gpu, "setting the compute mode of", "switch"):
            if exclusive and is_cut(gpu):
                raise CutError(CutCode.NOT_SUPPORTED, f"{gpu.uuid} is in MIG mode: it has no exclusive compute mode")
            if pynvml.nvmlDeviceGetComputeMode(gpu.handle) != wanted:
                pynvml.nvmlDeviceSetComputeMode(gpu.handle, wanted)

    def processes(self, device_uuid: str) -> list[Process]:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, "listing the processes of"):
            return processes_of(gpu)

    def used_bytes(self, device_uuid: str) -> int:
        gpu = self._gpu(device_uuid)
        with self._told(gpu, "reading the memory of"):
            return int(pynvml.nvmlDeviceGetMemoryInfo(gpu.handle).used)

    def xid_events(self) -> list[XidEvent]:
        return self._xids.take()

    # --- errors --------------------------------------------------------------------------------------------------

    def _gpu(self, device_uuid: str) -> Gpu:
        try:
            return self._session.gpus()[device_uuid]
        except SessionDown as error:
            raise CutError(CutCode.LOST, f"no session with the driver: {error}") from None
        except KeyError:
            raise CutError(CutCode.NOT_FOUND, f"no GPU {device_uuid} answers on this node") from None

    @contextlib.contextmanager
    def _told(self, gpu: Gpu, what: str, capability: Capability | None = None) -> Iterator[None]:
        """NVML's errors of the block as ``CutError``. A refusal for want of ``capability`` is kept until a success."""
        try:
            try:
                yield
            except NVMLError as error:
                self._session.check(error, gpu.epoch)
                code = CODES.get(error.value, CutCode.OTHER)
                text = f"{what} {gpu.uuid}: {said(error)}"
                if code is CutCode.NO_PERMISSION and capability is not None:
                    self.denied.add(capability)
                    text += f"; {GRANTS[capability].format(uuid=gpu.uuid)}"
                raise CutError(code, text) from None
        except SessionDown as error:
            raise CutError(CutCode.LOST, f"{what} {gpu.uuid}: the driver went away, {error}") from None
        if capability is not None:
            self.denied.discard(capability)
