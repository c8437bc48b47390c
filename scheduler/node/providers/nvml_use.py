"""How busy a real GPU is: its share of the time in which something ran on it.

Outside MIG the driver says so itself. In MIG mode it does not, and the performance counters of each instance do (GPM,
Hopper and newer): two samples of an instance, at least 100 ms apart, give the share of the time between them. One is
kept from the look before, so no look waits. The GPU's figure is the mean of its instances, weighted by their compute
slices. https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml
from pynvml import NVMLError

from scheduler.node.providers.nvml_layout import VANISHED, Found, Layout
from scheduler.node.providers.nvml_session import Gpu, Session

# Nearer to each other, two samples hold the same counters.
APART_S = 0.1
_BUSY = pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL  # percent of the time, as the rates of a GPU that is not cut


@dataclass
class _Counters:
    """Of one instance: the sample that counts, taken ``at``, and a buffer for the next. ``share``: the last found."""

    sample: Any
    spare: Any
    at: float
    share: float | None = None


class Use:
    """Thread-safe. ``clock``: monotonic, in seconds."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._lock = threading.Lock()
        self._layout = Layout()
        self._epoch = ""
        self._counted: dict[str, bool] = {}
        self._counters: dict[str, dict[tuple[int, int, int], _Counters]] = {}

    def of(self, gpu: Gpu, *, cut: bool) -> float | None:
        """0 to 1, or None where nobody measures it, or not yet. ``cut``: MIG mode is on.

        Raises ``GpuLost`` and ``SessionDown``.
        """
        if not cut:
            rates = self._session.ask(gpu, pynvml.nvmlDeviceGetUtilizationRates, default=None)
            return rates.gpu / 100 if rates is not None else None
        with self._lock:
            self._begin(gpu.epoch)
            if not self._has_counters(gpu):
                return None
            found: float | None = self._session.ask(gpu, lambda _: self._of_instances(gpu), default=None)
            return found

    def _begin(self, epoch: str) -> None:
        """What an ended session gave out is void with it."""
        if epoch != self._epoch:
            self._epoch, self._counted, self._counters = epoch, {}, {}

    def _has_counters(self, gpu: Gpu) -> bool:
        if gpu.uuid not in self._counted:
            support = self._session.ask(gpu, pynvml.nvmlGpmQueryDeviceSupport, default=None)
            self._counted[gpu.uuid] = support is not None and bool(support.isSupportedDevice)
        return self._counted[gpu.uuid]

    def _of_instances(self, gpu: Gpu) -> float | None:
        known, now = self._counters.setdefault(gpu.uuid, {}), self._clock()
        there = {(one.id, one.profile.id, one.start): one for one in self._layout.all(gpu)}
        for gone in known.keys() - there.keys():
            _free(known.pop(gone))
        for key, found in there.items():
            with contextlib.suppress(*VANISHED):
                if key in known:
                    _look_again(gpu, found, known[key], now)
                else:
                    known[key] = _first_look(gpu, found, now)
        if not there:
            return 0.0  # nothing can run there
        shares = [(one.profile.slices, known[key].share) for key, one in there.items() if key in known]
        measured = [(slices, share) for slices, share in shares if share is not None]
        if not measured:
            return None
        return sum(slices * share for slices, share in measured) / sum(slices for slices, _ in measured)


def _first_look(gpu: Gpu, found: Found, now: float) -> _Counters:
    counters = _Counters(sample=pynvml.nvmlGpmSampleAlloc(), spare=pynvml.nvmlGpmSampleAlloc(), at=now)
    try:
        pynvml.nvmlGpmMigSampleGet(gpu.handle, found.id, counters.sample)
    except NVMLError:
        _free(counters)
        raise
    return counters


def _look_again(gpu: Gpu, found: Found, counters: _Counters, now: float) -> None:
    if now - counters.at < APART_S:
        return
    pynvml.nvmlGpmMigSampleGet(gpu.handle, found.id, counters.spare)
    counters.share = _between(counters.sample, counters.spare)
    counters.sample, counters.spare, counters.at = counters.spare, counters.sample, now


def _between(first: Any, second: Any) -> float | None:
    asked = pynvml.c_nvmlGpmMetricsGet_t(
        version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=1, sample1=first, sample2=second
    )
    asked.metrics[0].metricId = _BUSY
    pynvml.nvmlGpmMetricsGet(asked)
    told = asked.metrics[0]
    # Another instance may be at the same place since: the difference of its counters to the old ones says nothing.
    if told.nvmlReturn != pynvml.NVML_SUCCESS or not math.isfinite(told.value) or told.value < 0:
        return None
    return min(1.0, float(told.value) / 100)


def _free(counters: _Counters) -> None:
    for sample in (counters.sample, counters.spare):
        with contextlib.suppress(NVMLError):
            pynvml.nvmlGpmSampleFree(sample)
