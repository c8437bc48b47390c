"""The roofline's constants by the native step's own instructions."""

from __future__ import annotations

from gpuruntime.kernels.native.library import library
from gpuruntime.kernels.native.memory import Bytes, huge_memory

LEAST_READ_BYTES = 16 << 20


class NativeProbe:
    """Implements ``kernels.rates.Probe`` for bf16 or int8 weights on ``threads`` cores.

    ``data``: written memory to read, such as the weights themselves; where it is too small to time, some of its own.
    """

    def __init__(self, threads: int, data: Bytes, *, int8: bool) -> None:
        self.name = f"native-{'int8' if int8 else 'bf16'}-{threads}"
        self._threads = threads
        self._int8 = int8
        self._data = data if len(data) >= LEAST_READ_BYTES else written_memory(LEAST_READ_BYTES)

    def flops_per_s(self) -> float:
        return float(library().berth_product_rate(self._threads, self._int8))

    def bytes_per_s(self) -> float:
        return float(library().berth_read_rate(self._data.ctypes.data, len(self._data), self._threads))


def written_memory(nbytes: int) -> Bytes:
    """``nbytes`` in huge pages that are there: pages of zeros that nobody touched are no memory."""
    data = huge_memory(nbytes)
    data.fill(1)
    return data
