"""Matrix FLOP/s and read bytes/s of this device: the roofline's two constants, measured once per host."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import torch

from gpuruntime.kernels.linear import Linear
from gpuruntime.roofline import DeviceRates

_ROUNDS = 4
_ROWS, _WIDTH = 256, 1024
_READ_BYTES = 64 << 20
_CUDA_WIDTH = 4096
_CUDA_READ_BYTES = 256 << 20  # more than any L2 cache


class Probe(Protocol):
    """Measures a device with what will run on it; each call takes some milliseconds."""

    @property
    def name(self) -> str:
        """Tells apart what gives different rates on one host: the arithmetic and the threads."""
        ...

    def flops_per_s(self) -> float: ...

    def bytes_per_s(self) -> float: ...


def measure_rates(probe: Probe, cache_dir: Path | None, done: Callable[[DeviceRates], None]) -> Iterator[None]:
    """Calls ``done`` with the rates, from ``cache_dir`` when they are known; else yields between short slices.

    The best of the slices counts: a neighbour can only make a device look slower than it is.
    """
    name = f"{platform.node()}-{platform.machine()}-{os.cpu_count()}-{probe.name}"
    path = cache_dir / f"rates-{name}.json" if cache_dir is not None else None
    known = _load(path) if path is not None else None
    if known is not None:
        done(known)
        return
    flops, reads = 0.0, 0.0
    for _ in range(_ROUNDS):
        flops = max(flops, probe.flops_per_s())
        yield
    for _ in range(_ROUNDS):
        reads = max(reads, probe.bytes_per_s())
        yield
    rates = DeviceRates(flops_per_s=flops, bytes_per_s=reads)
    if path is not None:
        _store(path, rates)
    done(rates)


class TorchProbe:
    """Of PyTorch's own products in ``dtype``."""

    def __init__(self, dtype: torch.dtype, threads: int) -> None:
        self.name = f"torch-{str(dtype).removeprefix('torch.')}-{threads}"
        self._dtype = dtype
        self._data: torch.Tensor | None = None

    def flops_per_s(self) -> float:
        layer = Linear(torch.ones(_WIDTH, _WIDTH, dtype=self._dtype))
        x = torch.ones(_ROWS, _WIDTH, dtype=self._dtype)
        with torch.inference_mode():
            layer(x)
            began = time.perf_counter()
            for _ in range(4):
                layer(x)
            return 4 * 2 * _ROWS * _WIDTH * _WIDTH / (time.perf_counter() - began)

    def bytes_per_s(self) -> float:
        if self._data is None:
            self._data = torch.zeros(_READ_BYTES // 8, dtype=torch.int64)
        began = time.perf_counter()
        self._data.sum()
        return _READ_BYTES / (time.perf_counter() - began)


class CudaProbe:
    """Of a GPU, or of the slice that this process sees of one: cuBLAS's products in ``dtype`` and a copy's reads."""

    def __init__(self, dtype: torch.dtype) -> None:
        device = torch.cuda.get_device_properties()
        memory = device.total_memory >> 30  # tells slices of one kind of GPU apart
        self.name = f"cuda-{device.name.replace(' ', '-')}-{memory}-{str(dtype).removeprefix('torch.')}"
        self._dtype = dtype

    def flops_per_s(self) -> float:
        x = torch.ones(_CUDA_WIDTH, _CUDA_WIDTH, dtype=self._dtype, device="cuda")
        return 2 * _CUDA_WIDTH**3 / _device_seconds(lambda: x @ x)

    def bytes_per_s(self) -> float:
        data = torch.ones(_CUDA_READ_BYTES // 4, device="cuda")
        return _CUDA_READ_BYTES / _device_seconds(data.sum)


def _device_seconds(work: Callable[[], object]) -> float:
    """Of one of four runs after a first one."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    work()
    began.record()
    for _ in range(4):
        work()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 4e3


def _load(path: Path) -> DeviceRates | None:
    try:
        stored = json.loads(path.read_text("utf-8"))
        rates = DeviceRates(float(stored["flops_per_s"]), float(stored["bytes_per_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rates if rates.flops_per_s > 0 and rates.bytes_per_s > 0 else None


def _store(path: Path, rates: DeviceRates) -> None:
    """Written beside and renamed, so that a reader never sees half a file; a full disk costs only the cache."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump({"flops_per_s": rates.flops_per_s, "bytes_per_s": rates.bytes_per_s}, file)
        Path(file.name).replace(path)
    except OSError:
        return
