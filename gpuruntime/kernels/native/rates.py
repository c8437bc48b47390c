"""The roofline's constants by the native step's own instructions."""

from __future__ import annotations

from gpuruntime.kernels.native.library import library
from gpuruntime.kernels.native.memory import Bytes, huge_memory

_READ_BYTES = 128 << 20


class NativeProbe:
    """Implements ``kernels.rates.Probe`` for bf16 or int8 weights on ``threads`` cores."""

    def __init__(self, threads: int, *, int8: bool, read_bytes: int = _READ_BYTES) -> None:
        """``read_bytes``: how much memory one reading passes over."""
        self.name = f"native-{'int8' if int8 else 'bf16'}-{threads}"
        self._threads = threads
        self._int8 = int8
        self._read_bytes = read_bytes
        self._data: Bytes | None = None

    def flops_per_s(self) -> float:
        return float(library().berth_product_rate(self._threads, self._int8))

    def bytes_per_s(self) -> float:
        """From memory that was written before: pages of zeros that nobody touched are no memory."""
        if self._data is None:
            self._data = huge_memory(self._read_bytes)
            self._data.fill(1)
        return float(library().berth_read_rate(self._data.ctypes.data, self._read_bytes, self._threads))
