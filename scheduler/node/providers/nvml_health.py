"""What a GPU says of its health: XIDs from NVML's events, the rest read anew at each look."""

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
_NO_ID = 0xFFFFFFFF
_AT_ONCE = 256  # events of one look: a storm must not hold up the others
_KEPT = 4096


class Health:
    """Thread-safe: the agent's loop looks at signals while a slice is being made in another thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._epoch = ""
        self._events: Any = None
        self._names: dict[int, str] = {}
        self._pending: deque[XidEvent] = deque(maxlen=_KEPT)
        self._xids: dict[str, Counter[str]] = {}
        self._uncorrected: dict[str, int] = {}
        self._resets: Counter[str] = Counter()

    def signals(self, gpu: Gpu) -> DeviceSignals:
        """Raises ``GpuLost`` and ``SessionDown``."""
        ask = self._session.ask
        arguments = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        ecc = ask(gpu, pynvml.nvmlDeviceGetTotalEccErrors, *arguments, default=0)
        _, _, pending, failed = ask(gpu, pynvml.nvmlDeviceGetRemappedRows, default=(0, 0, 0, 0))
        reasons = ask(gpu, pynvml.nvmlDeviceGetCurrentClocksEventReasons, default=0)
        recovery = self._recovery_action(gpu)
        with self._lock:
            if ecc < self._uncorrected.get(gpu.uuid, 0):
                # A reset of this GPU alone set its counter back.
                self._resets[gpu.uuid] += 1
                self._xids.pop(gpu.uuid, None)
            self._uncorrected[gpu.uuid] = ecc
        return DeviceSignals(
            epoch=self._epoch_of(gpu.uuid, gpu.epoch),
            xids=self.xids(gpu.uuid),
            ecc_uncorrected=ecc,
            row_remap_pending=bool(pending),
            row_remap_failed=bool(failed),
            recovery_action=recovery,
            thermal_slowdown=bool(reasons & _THERMAL),
        )

    def lost(self, uuid: str) -> DeviceSignals:
        """Of a GPU that answers nothing any more."""
        return DeviceSignals(epoch=self._epoch_of(uuid, self._session.epoch), xids=self.xids(uuid), lost=True)

    def xids(self, uuid: str) -> dict[str, int]:
        with self._lock:
            return dict(self._xids.get(uuid, {}))

    def look(self) -> None:
        """Takes in the events that wait. Never raises."""
        with self._lock:
            try:
                self._register()
                for _ in range(_AT_ONCE):
                    self._take(pynvml.nvmlEventSetWait_v2(self._events, 0))
            except SessionDown:
                return
            except NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    return
                try:
                    self._session.check(error, self._epoch)
                except SessionDown:
                    return
                self._epoch = ""  # with a new set next time

    def events(self) -> list[XidEvent]:
        """Those since the last call, the oldest first."""
        self.look()
        with self._lock:
            found = list(self._pending)
            self._pending.clear()
        return found

    def _epoch_of(self, uuid: str, epoch: str) -> str:
        return f"{epoch}.{self._resets[uuid]}"

    def _recovery_action(self, gpu: Gpu) -> str:
        fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        found = self._session.ask(gpu, pynvml.nvmlDeviceGetFieldValues, fields, default=())
        if not len(found) or found[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return "none"
        number = found[0].value.uiVal
        return RECOVERY_ACTIONS.get(number, f"unknown_{number}")

    def _register(self) -> None:
        gpus = self._session.gpus()
        if self._epoch == self._session.epoch:
            return
        events = pynvml.nvmlEventSetCreate()
        for gpu in gpus.values():
            try:
                pynvml.nvmlDeviceRegisterEvents(gpu.handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except NVMLError as error:
                self._session.check(error, gpu.epoch)  # a GPU without events has its other signals
        self._events = events
        self._names = {gpu.address: gpu.uuid for gpu in gpus.values()}
        self._xids.clear()
        self._uncorrected.clear()
        self._resets.clear()
        self._epoch = self._session.epoch

    def _take(self, event: Any) -> None:
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return
        uuid = self._names.get(address_of(event.device))
        if uuid is None:
            return
        instance = None if event.gpuInstanceId == _NO_ID else int(event.gpuInstanceId)
        code = int(event.eventData)
        self._pending.append(XidEvent(uuid, code, instance))
        if instance is None:
            # What one instance raised is its own affair; what the GPU raised is everyone's.
            self._xids.setdefault(uuid, Counter())[str(code)] += 1
