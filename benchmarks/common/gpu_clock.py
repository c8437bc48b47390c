"""What the parts of ``benchmarks/gpu.py`` share: the device, its clock, its measured rates, and a row of a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_FLUSH_BYTES = 256 << 20  # more than any second-level cache
_AHEAD_CYCLES = 2_000_000  # about a millisecond
_LEAST_RUNS, _MOST_RUNS = 5, 50
_KEPT_FREE = 0.15


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case. Times in seconds; ``floor_s``: bytes over bandwidth or operations over rate, of ``bound``."""

    part: str
    case: str
    seconds: float
    floor_s: float
    bound: str
    peers: Mapping[str, float | str] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the measured bandwidth or matrix rate."""
        return self.floor_s / self.seconds

    def best_peer(self) -> float | None:
        """Its time over ours; None where no peer ran."""
        times = [found for found in self.peers.values() if isinstance(found, float)]
        return min(times) / self.seconds if times else None

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "case": self.case,
            "seconds": self.seconds,
            "floor_s": self.floor_s,
            "bound": self.bound,
            "share": self.share,
            "peers": dict(self.peers),
            "best_peer_over_ours": self.best_peer(),
            "shape": dict(self.shape),
        }


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes and operations a second, measured."""

    bytes_s: float
    flops: float


class Bench:
    """One run on one device. ``dry``: tiny shapes on the CPU, in Triton's interpreter."""

    def __init__(self, *, dry: bool, budget_s: float) -> None:
        self.dry = dry
        self.device = torch.device("cpu" if dry else "cuda")
        self.dtype = torch.float32 if dry else torch.bfloat16
        self.left_out: list[str] = []
        self._ends_s = time.monotonic() + budget_s
        self._flush = torch.empty(0 if dry else _FLUSH_BYTES, dtype=torch.uint8, device=self.device)

    @property
    def name(self) -> str:
        return "CPU, Triton's interpreter" if self.dry else torch.cuda.get_device_name()

    def has_time(self, what: str) -> bool:
        """Else ``what`` is named as left out."""
        if time.monotonic() < self._ends_s:
            return True
        self.left_out.append(f"{what}: the time was up")
        return False

    def has_memory(self, nbytes: int, what: str) -> bool:
        """Whether ``nbytes`` fit beside what is there; of a MIG slice the driver tells the slice's own."""
        if self.dry:
            return True
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        if nbytes <= free - _KEPT_FREE * total:
            return True
        self.left_out.append(f"{what}: it takes {nbytes / 1e9:.1f} GB")
        return False

    def has_types(self, what: str) -> bool:
        """Whether the device has fp8, where the case ``what`` is of it; else the case is named as left out."""
        if self.dry or "fp8" not in what or torch.cuda.get_device_capability() >= (8, 9):
            return True
        self.left_out.append(f"{what}: it takes a compute capability of 8.9")
        return False

    def seconds(
        self, function: Callable[[], Any], *, cold: bool = False, hosted: bool = False, budget_s: float = 0.4
    ) -> float:
        """The median of some runs after two that warm up; ``cold``: with nothing of it in the caches.

        hosted: what the host does counts too. Otherwise it is the device's time alone, as in a captured step.
        """
        function()
        if self.dry:
            began_s = time.perf_counter()
            function()
            return time.perf_counter() - began_s
        function()
        first = self._once(function, cold=cold, hosted=hosted)
        runs = max(_LEAST_RUNS, min(_MOST_RUNS, int(budget_s / max(first, 1e-6))))
        return statistics.median(self._once(function, cold=cold, hosted=hosted) for _ in range(runs))

    def random(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.randn(shape, device=self.device, dtype=dtype or self.dtype)

    def _once(self, function: Callable[[], Any], *, cold: bool, hosted: bool) -> float:
        if cold:
            self._flush.zero_()
        if not hosted:
            # The device waits while the host launches: a launch takes the host longer than a short kernel runs.
            torch.cuda._sleep(_AHEAD_CYCLES)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


def calibrate(bench: Bench) -> Rates:
    """The bandwidth of a large read and the rate of a large product in bf16, the best of each that the device shows."""
    size, width = (1 << 20, 128) if bench.dry else (1 << 30, 8192)
    source = torch.empty(size, dtype=torch.uint8, device=bench.device).zero_()
    target = torch.empty_like(source)
    copied = bench.seconds(lambda: target.copy_(source))
    words = source.view(torch.float32)
    read = bench.seconds(words.sum)
    left, right = bench.random(width, width), bench.random(width, width)
    product = bench.seconds(lambda: left @ right)
    return Rates(max(2 * size / copied, size / read), 2 * width**3 / product)


def attempt(measure: Callable[[], float]) -> float | str:
    """A peer that is not there or does not take the case is named with its reason, and the others go on."""
    try:
        return measure()
    except ImportError:
        return "not installed"
    except Exception as error:  # a peer may raise anything: one compiles at its first call, with tools that may lack
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}" if str(error) else type(error).__name__
