"""Weights in the one layout that the native step reads, whatever the batch (drawn in ``model.h``)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.memory import Arena
from gpuruntime.kernels.quantize import quantize_rows


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """Keeps alive what ``struct`` points to. ``nbytes``: of tiles, scales and bias."""

    tiles: Tensor
    scale: Tensor | None
    bias: Tensor | None
    columns: int
    depth: int

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.tiles, self.scale, self.bias) if part is not None)

    @property
    def struct(self) -> library.Matrix:
        return library.Matrix(_address(self.tiles), _address(self.scale), _address(self.bias), self.columns, self.depth)


def pack(arena: Arena, weight: Tensor, bias: Tensor | None = None, *, int8: bool = False) -> PackedMatrix:
    """Packs ``weight [N, K]`` into ``arena`` as bf16, or as int8 with a scale a row.

    N is padded to a multiple of 32 with zeros, K to one of 32, of 64 in int8.
    """
    rows, depth = weight.shape
    scale = None
    if int8:
        quantized = quantize_rows(weight)
        weight, scale = quantized.values, _padded(quantized.scales)
    else:
        weight = weight.to(torch.bfloat16)
    together = 4 if int8 else 2  # elements of one column side by side, as the tile instructions take them
    weight = pad(weight, (0, -depth % (16 * together), 0, -rows % 32))
    # [N / 32, column tile, column, depth tile, row of the tile, together] -> [N / 32, depth tile, column tile, ...]
    parts = weight.view(weight.shape[0] // 32, 2, 16, -1, 16, together).permute(0, 3, 1, 4, 2, 5)
    tiles = torch.from_numpy(arena.take(parts.nbytes)).view(parts.dtype).view(parts.shape)
    tiles.copy_(parts)
    return PackedMatrix(tiles, scale, None if bias is None else _padded(bias), rows, depth)


def interleave(gate: Tensor, up: Tensor) -> Tensor:
    """Rows of ``gate`` and ``up`` ``[N, ...]`` in turns of 16: ``[2 N, ...]``; N is a multiple of 16."""
    parts = torch.stack([x.view(-1, 16, *x.shape[1:]) for x in (gate, up)], dim=1)
    return parts.reshape(-1, *gate.shape[1:])


def _padded(vector: Tensor) -> Tensor:
    return pad(vector.float(), (0, -vector.shape[0] % 32)).contiguous()


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
