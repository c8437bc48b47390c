"""What a GPU says of its health: levels that are read anew at each look, and XIDs, which come as events.

The XIDs are told to the slice keeper (``Cutter.xid_events``), which knows whose they are and counts them.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Any

import pynvml
from pynvml import NVMLError

from gpuruntime.protocol import DeviceSignals
from scheduler.node.providers.base import XidEvent
from scheduler.node.providers.nvml_session import Gpu, Session, SessionDown, address_of

RECOVERY_ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: "none",
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "gpu_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "node_reboot",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "drain_p2p",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain_and_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: "recover_imex_domain",
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: "bus_reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: "system_reboot",
}
_THERMAL = pynvml.nvmlClocksEventReasonSwThermalSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown
_XID = pynvml.nvmlEventTypeXidCriticalError
_NO_ID = 0xFFFFFFFF
_AT_ONCE = 256  # events of one look: a storm must not hold up the caller
_KEPT = 4096


class Signals:
    """``epoch`` is the session's, and a new one after a reset of the GPU alone, which sets its counters back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._uncorrected: dict[str, tuple[str, int]] = {}
        self._resets: Counter[str] = Counter()

    def of(self, gpu: Gpu) -> DeviceSignals:
        """Raises ``GpuLost`` and ``SessionDown``."""
        ask = self._session.ask
        arguments = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        ecc = ask(gpu, pynvml.nvmlDeviceGetTotalEccErrors, *arguments, default=0)
        _, _, pending, failed = ask(gpu, pynvml.nvmlDeviceGetRemappedRows, default=(0, 0, 0, 0))
        reasons = ask(gpu, pynvml.nvmlDeviceGetCurrentClocksEventReasons, default=0)
        epoch, before = self._uncorrected.get(gpu.uuid, (gpu.epoch, 0))
        self._resets[gpu.uuid] += epoch == gpu.epoch and ecc < before
        self._uncorrected[gpu.uuid] = gpu.epoch, ecc
        return DeviceSignals(
            epoch=f"{gpu.epoch}.{self._resets[gpu.uuid]}",
            ecc_uncorrected=ecc,
            row_remap_pending=bool(pending),
            row_remap_failed=bool(failed),
            recovery_action=self._recovery_action(gpu),
            thermal_slowdown=bool(reasons & _THERMAL),
        )

    def lost(self, uuid: str) -> DeviceSignals:
        """Of a GPU that answers nothing any more."""
        return DeviceSignals(epoch=f"{self._session.epoch}.{self._resets[uuid]}", lost=True)

    def _recovery_action(self, gpu: Gpu) -> str:
        fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        found = self._session.ask(gpu, pynvml.nvmlDeviceGetFieldValues, fields, default=())
        if not len(found) or found[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return "none"
        number = found[0].value.uiVal
        return RECOVERY_ACTIONS.get(number, f"action_{number}")


class XidEvents:
    """Thread-safe. Events are of GPUs, never of MIG devices; each says which instance it is of, where it is of one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._epoch = ""
        self._events: Any = None
        self._names: dict[int, str] = {}
        self._pending: deque[XidEvent] = deque(maxlen=_KEPT)

    def collect(self) -> None:
        """Takes in those that wait in the driver, which keeps few. Never raises."""
        with self._lock:
            try:
                self._register()
                for _ in range(_AT_ONCE):
                    self._keep(pynvml.nvmlEventSetWait_v2(self._events, 0))
            except SessionDown:
                return
            except NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    return
                self._epoch = ""  # another set next time
                try:
                    self._session.check(error, self._session.epoch)
                except SessionDown:
                    return

    def take(self) -> list[XidEvent]:
        """Those since the last call, the oldest first."""
        self.collect()
        with self._lock:
            found = list(self._pending)
            self._pending.clear()
        return found

    def _register(self) -> None:
        gpus = self._session.gpus()
        if self._epoch == self._session.epoch:
            return
        events = pynvml.nvmlEventSetCreate()
        for gpu in gpus.values():
            try:
                pynvml.nvmlDeviceRegisterEvents(gpu.handle, _XID, events)
            except NVMLError as error:
                self._session.check(error, gpu.epoch)  # a GPU without events has its other signals
        self._events = events
        self._names = {gpu.address: gpu.uuid for gpu in gpus.values()}
        self._epoch = self._session.epoch

    def _keep(self, event: Any) -> None:
        uuid = self._names.get(address_of(event.device))
        if event.eventType == _XID and uuid is not None:
            instance = None if event.gpuInstanceId == _NO_ID else int(event.gpuInstanceId)
            self._pending.append(XidEvent(uuid, int(event.eventData), instance))
