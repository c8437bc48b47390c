"""Weights as int8 with one scale an output channel, chosen for the least squared error of the channel.

The largest magnitude of a row need not map to 127: clipping the few largest values makes the grid finer for all others
(OCTAV, Sakr et al., arXiv:2206.06501, finds that clip by iteration; here it is a search over a few ratios). The scale
is then fitted to the chosen integers by least squares.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

LIMIT = 127
_CLIPS = tuple(1.0 - 0.02 * step for step in range(16))
_CHUNK_ELEMENTS = 1 << 17  # a chunk and its temporaries stay in the core's own cache
_GPU_CHUNK_ELEMENTS = 1 << 24  # there a launch costs more than the memory's way


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """``weight[n, k]`` is about ``values[n, k] * scales[n]``.

    values: int8 ``[N, K]`` in -127..127. scales: fp32 ``[N]``.
    """

    values: Tensor
    scales: Tensor

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes


def quantize_rows(weight: Tensor) -> QuantizedWeight:
    """Rounds ``weight [N, K]`` (any float type) row by row; a row of zeros gets the scale 0.

    Raises ``ValueError`` for values that are not finite.
    """
    rows, columns = weight.shape
    values = torch.empty((rows, columns), dtype=torch.int8, device=weight.device)
    scales = torch.empty(rows, dtype=torch.float32, device=weight.device)
    chunk = _GPU_CHUNK_ELEMENTS if weight.is_cuda else _CHUNK_ELEMENTS
    step = max(1, chunk // max(1, columns))
    with _one_thread():
        for start in range(0, rows, step):
            end = min(start + step, rows)
            values[start:end], scales[start:end] = _quantize_chunk(weight[start:end].float())
    return QuantizedWeight(values, scales)


def dequantize(quantized: QuantizedWeight, dtype: torch.dtype = torch.float32) -> Tensor:
    """``[N, K]`` in ``dtype``."""
    return (quantized.values.float() * quantized.scales.unsqueeze(1)).to(dtype)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """To wake other threads for a chunk's operations of microseconds takes eight times as long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _quantize_chunk(weight: Tensor) -> tuple[Tensor, Tensor]:
    largest = weight.abs().amax(dim=1, keepdim=True)
    if not bool(torch.isfinite(largest).all()):
        raise ValueError("weights that are not finite cannot be quantized")
    unit = (largest / LIMIT).clamp_min_(torch.finfo(torch.float32).tiny)
    best_error = torch.full_like(unit, torch.inf)
    best_scale = unit.clone()
    scaled, rounded = torch.empty_like(weight), torch.empty_like(weight)
    for clip in _CLIPS:
        scale = unit * clip
        torch.div(weight, scale, out=scaled)
        torch.round(scaled, out=rounded).clamp_(-LIMIT, LIMIT)
        # In units of the scale, so that the smallest normal weights do not vanish when squared.
        error = scaled.sub_(rounded).square_().sum(dim=1, keepdim=True).mul_(clip * clip)
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best_scale = torch.where(better, scale, best_scale)
    torch.div(weight, best_scale, out=scaled)
    torch.round(scaled, out=rounded).clamp_(-LIMIT, LIMIT)
    # Least squares: the scale that brings these integers nearest to the weights is their projection.
    fit = (scaled * rounded).sum(dim=1) / rounded.square().sum(dim=1).clamp_min_(1.0)
    return rounded.to(torch.int8), fit * best_scale.squeeze(1)
