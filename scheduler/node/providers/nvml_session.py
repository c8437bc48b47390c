"""One NVML session for the life of the agent: opening one takes seconds on a busy node.

A session does not outlive its driver. What the driver's going away answers closes it; the next call opens another, at
once the first time, later in growing steps. Whatever was counted or held then begins anew with ``epoch``.
"""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pynvml
import structlog
from pynvml import NVMLError

from scheduler.geometry.boards import UnknownBoard, board_of_pci

RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
# Answers that say nothing of one GPU: the driver or the library is not there, or not the one it was.
_GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND})
# Said of one GPU, or of all because the driver was loaded anew: asking for something else tells them apart.
_DOUBTFUL = frozenset({pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_INVALID_ARGUMENT})

log = structlog.get_logger(__name__)


class SessionDown(RuntimeError):
    """No session now; the text says why and when the next attempt is due."""


class GpuLost(RuntimeError):
    """The GPU answers nothing any more."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as it was found when the session was opened. ``board`` empty: in no table of geometries."""

    index: int
    uuid: str
    name: str
    pci_device: str
    board: str
    resetless_mig: bool
    handle: Any
    epoch: str

    @property
    def address(self) -> int:
        """What an event names the GPU by."""
        return address_of(self.handle)


def address_of(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def said(error: NVMLError) -> str:
    """As ``NVML 19 (In use by another client)``."""
    return f"NVML {error.value} ({error})"


class Session:
    """Thread-safe. NVML's own calls are never made under the lock, except while a session is opened."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._gpus: dict[str, Gpu] | None = None
        self._reason = ""
        self._failures = 0
        self._retry_at = 0.0
        self.epoch = ""
        self._open()

    def gpus(self) -> Mapping[str, Gpu]:
        """By UUID, in NVML's order; opens a session where none is. Raises ``SessionDown``."""
        with self._lock:
            if self._gpus is not None:
                return self._gpus
            wait = self._retry_at - self._clock()
            if wait > 0:
                raise SessionDown(f"{self._reason}; tried again in {wait:.0f} s")
            try:
                return self._open()
            except NVMLError as error:
                delay = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
                self._failures += 1
                self._retry_at = self._clock() + delay
                self._reason = said(error)
                raise SessionDown(f"{self._reason}; tried again in {delay:.0f} s") from None

    def ask(self, gpu: Gpu, function: Callable[..., Any], *arguments: Any, default: Any) -> Any:
        """What a call of ``gpu`` answers, or ``default`` where the GPU or the driver does not know it.

        Raises ``GpuLost`` and ``SessionDown``.
        """
        try:
            return function(gpu.handle, *arguments)
        except NVMLError as error:
            self.check(error, gpu.epoch)
            if error.value in _LOST:
                raise GpuLost(said(error)) from None
            return default

    def check(self, error: NVMLError, epoch: str) -> None:
        """Raises ``SessionDown`` where ``error`` says that the session of ``epoch`` is no more."""
        if epoch == self.epoch:
            if error.value not in _GONE and (error.value not in _DOUBTFUL or self._answers()):
                return
            self.close(said(error), epoch)
        raise SessionDown(said(error)) from None

    def refetch(self, gpu: Gpu) -> None:
        """Takes the GPU's handle anew, as after its MIG mode was switched."""
        with self._lock:
            if self._gpus is not None and gpu.epoch == self.epoch:
                handle = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
                self._gpus = {**self._gpus, gpu.uuid: _described(gpu.index, handle, self.epoch)}

    def close(self, reason: str = "closed", epoch: str | None = None) -> None:
        """The next call opens another at once. With ``epoch``: only if it is still that session."""
        with self._lock:
            if self._gpus is None or (epoch is not None and epoch != self.epoch):
                return
            self._gpus, self._reason, self._retry_at, self._failures = None, reason, 0.0, 0
            with contextlib.suppress(NVMLError):
                pynvml.nvmlShutdown()
            if epoch is not None:
                log.warning("NVML session lost", reason=reason)

    def _answers(self) -> bool:
        try:
            pynvml.nvmlDeviceGetCount()
        except NVMLError:
            return False
        return True

    def _open(self) -> dict[str, Gpu]:
        pynvml.nvmlInit()
        epoch = secrets.token_hex(6)
        try:
            gpus = _found(epoch)
        except NVMLError:
            with contextlib.suppress(NVMLError):
                pynvml.nvmlShutdown()
            raise
        self.epoch, self._gpus, self._failures = epoch, gpus, 0
        return gpus


def _found(epoch: str) -> dict[str, Gpu]:
    gpus: dict[str, Gpu] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpu = _described(index, handle, epoch)
        except NVMLError as error:
            if error.value in _GONE:
                raise
            # Others go on without it; nobody can know its UUID.
            log.error("GPU does not answer", index=index, reason=said(error))
            continue
        gpus[gpu.uuid] = gpu
    return gpus


def _described(index: int, handle: Any, epoch: str) -> Gpu:
    pci_device = f"{pynvml.nvmlDeviceGetPciInfo(handle).pciDeviceId >> 16:04X}"
    try:
        board = board_of_pci(pci_device).key
    except UnknownBoard:
        board = ""
    return Gpu(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        pci_device=pci_device,
        board=board,
        resetless_mig=_is_resetless(handle),
        handle=handle,
        epoch=epoch,
    )


def _is_resetless(handle: Any) -> bool:
    """Whether MIG mode is switched without a reset; older drivers do not say, the architecture does."""
    try:
        (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED])
        if value.nvmlReturn == pynvml.NVML_SUCCESS:
            return bool(value.value.uiVal)
        return bool(pynvml.nvmlDeviceGetArchitecture(handle) >= pynvml.NVML_DEVICE_ARCH_HOPPER)
    except NVMLError:
        return False
