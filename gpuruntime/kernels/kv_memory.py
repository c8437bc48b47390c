"""Where K and V of one layer live, in blocks of 16 tokens: as computed, or as int8.

Both layouts keep the K and V of one block as one contiguous row, so that a request's context is one gather. A slot is
``block * 16 + offset``; ``write`` takes K heads before V heads, as the fused product leaves them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

_LIMIT = 127


class LayerKv(Protocol):
    """K and V of one layer."""

    def write(self, slots: Tensor, kv: Tensor) -> None:
        """Stores ``kv [T, 2 * kv_heads, head_dim]`` at int64 ``slots [T]``."""
        ...

    def read(self, blocks: Tensor) -> Tensor:
        """``[n * 16, 2, kv_heads, head_dim]`` of int64 ``blocks [n]``; the second axis is K, V."""
        ...


class PlainKv:
    """The compute type: ``[blocks, 16, 2, kv_heads, head_dim]``."""

    def __init__(self, num_blocks: int, block_tokens: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        self._pool = mapped_zeros((num_blocks, block_tokens, 2, kv_heads, head_dim), dtype)
        self._rows = self._pool.view(num_blocks * block_tokens, -1)

    def write(self, slots: Tensor, kv: Tensor) -> None:
        self._rows.index_copy_(0, slots, kv.flatten(1))

    def read(self, blocks: Tensor) -> Tensor:
        return self._pool.index_select(0, blocks).flatten(0, 1)


class Int8Kv:
    """int8 values like ``PlainKv``'s and one fp32 scale for each token's K and V head: ``[blocks, 16, 2, kv_heads]``.

    A value is ``int8 * scale`` with the head's largest magnitude at 127; a head of zeros has the scale 0.
    """

    def __init__(self, num_blocks: int, block_tokens: int, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._values = mapped_zeros((num_blocks, block_tokens, 2, kv_heads, head_dim), torch.int8)
        self._scales = mapped_zeros((num_blocks, block_tokens, 2, kv_heads), torch.float32)
        self._value_rows = self._values.view(num_blocks * block_tokens, -1)
        self._scale_rows = self._scales.view(num_blocks * block_tokens, -1)

    def write(self, slots: Tensor, kv: Tensor) -> None:
        kv = kv.float()
        scales = kv.abs().amax(dim=-1) / _LIMIT
        steps = scales.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(-1)
        values = torch.round(kv / steps).to(torch.int8)
        self._value_rows.index_copy_(0, slots, values.flatten(1))
        self._scale_rows.index_copy_(0, slots, scales)

    def read(self, blocks: Tensor) -> Tensor:
        values = self._values.index_select(0, blocks).flatten(0, 1)
        scales = self._scales.index_select(0, blocks).flatten(0, 1)
        return (values.float() * scales.unsqueeze(-1)).to(self._dtype)


def mapped_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that numpy maps and does not touch: memory becomes resident as blocks are used."""
    count = int(np.prod(shape, dtype=np.int64))
    return torch.from_numpy(np.zeros(count * dtype.itemsize, dtype=np.uint8)).view(dtype).view(shape)
