"""Causal attention over paged K and V: the PyTorch reference, which is also the CPU's path.

What a token sees is a ``View``: all earlier tokens, the last ones, or the first and the last ones. A plan holds the
blocks that the rows of a batch see under one view, and nothing outside the view is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from gpuruntime.kernels.kv_memory import LayerKv

_FAR = 1 << 40  # a key position that no query sees


@dataclass(frozen=True, slots=True)
class View:
    """A token sees the last ``window`` tokens, itself included (None: all), and the first ``sinks`` tokens."""

    window: int | None = None
    sinks: int = 0

    def blocks(self, first: int, last: int, block_size: int) -> NDArray[np.int64]:
        """Ascending indexes of a request's blocks that any of the positions ``first .. last`` sees."""
        end = last // block_size + 1
        if self.window is None:
            return np.arange(end)
        begin = max(0, first - self.window + 1) // block_size
        sinks = min(-(-self.sinks // block_size), begin)
        return np.concatenate((np.arange(sinks), np.arange(begin, end)))

    def hides(self, queries: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which key positions the query positions do not see; the two broadcast."""
        hidden = keys > queries
        if self.window is not None:
            hidden |= (keys <= queries - self.window) & (keys >= self.sinks)
        return hidden


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Requests with one new token each that see about as many blocks.

    start, end: their rows in the batch. blocks: int64 ``[n * width]``, each request's blocks padded to ``width``.
    mask: ``[n, 1, 1, width * 16]`` added to the scores, minus infinity for what a request does not see.
    """

    start: int
    end: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Several new tokens of one request. blocks: int64 ``[width]``; mask: ``[end - start, width * 16]``."""

    start: int
    end: int
    blocks: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Who attends to what; made once a step for each view and used by every layer that has it."""

    view: View
    decodes: tuple[DecodeGroup, ...]
    prefills: tuple[PrefillChunk, ...]


def plan_decodes(
    view: View, tables: NDArray[np.int32], positions: NDArray[np.int32], block_size: int, dtype: torch.dtype
) -> tuple[DecodeGroup, ...]:
    """Groups the leading ``n`` rows of a batch, sorted by position, last first: tables ``[n, any]``, positions ``[n]``.

    A group's rows are padded to its widest, so a group ends where padding would double the narrowest.
    """
    seen = [view.blocks(position, position, block_size) for position in positions.tolist()]
    groups = []
    start = 0
    while start < len(seen):
        width, end = len(seen[start]), start + 1
        while end < len(seen) and 2 * len(seen[end]) >= width:
            width = max(width, len(seen[end]))
            end += 1
        indexes = np.empty((end - start, width), dtype=np.int64)
        padding = np.ones((end - start, width), dtype=np.bool_)
        for row, blocks in enumerate(seen[start:end]):
            indexes[row] = blocks[0]
            indexes[row, : len(blocks)] = blocks
            padding[row, : len(blocks)] = False
        keys = _positions(np.where(padding, _FAR, indexes), block_size)
        mask = _mask(view.hides(positions[start:end, None].astype(np.int64), keys), dtype)
        blocks = np.take_along_axis(tables[start:end].astype(np.int64), indexes, axis=1)
        groups.append(DecodeGroup(start, end, torch.from_numpy(blocks.reshape(-1)), mask.view(end - start, 1, 1, -1)))
        start = end
    return tuple(groups)


def plan_prefill(
    view: View, start: int, *, table: NDArray[np.int32], first: int, count: int, block_size: int, dtype: torch.dtype
) -> PrefillChunk:
    """A chunk of ``count`` tokens at batch row ``start``; ``first`` is its first token's position in the context."""
    indexes = view.blocks(first, first + count - 1, block_size)
    queries = np.arange(first, first + count)[:, None]
    mask = _mask(view.hides(queries, _positions(indexes, block_size)), dtype)
    return PrefillChunk(start, start + count, torch.from_numpy(table[indexes].astype(np.int64)), mask)


def _positions(blocks: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    """Context positions of the tokens in block indexes ``[..., width]``: ``[..., width * block_size]``."""
    tokens = blocks[..., None] * block_size + np.arange(block_size)
    return tokens.reshape(*blocks.shape[:-1], -1)


def _mask(hidden: NDArray[np.bool_], dtype: torch.dtype) -> Tensor:
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(torch.from_numpy(hidden), float("-inf"))


def paged_attention(q: Tensor, kv: LayerKv, plan: AttentionPlan, scale: float) -> Tensor:
    """Attention of ``q [T, heads, head_dim]`` over one layer's ``kv``; returns ``[T, heads * head_dim]``.

    K and V of the batch's own tokens must already be written. Softmax runs in fp32.
    """
    out = torch.empty_like(q)
    for group in plan.decodes:
        out[group.start : group.end] = _decode(q[group.start : group.end], kv, group, scale)
    for chunk in plan.prefills:
        out[chunk.start : chunk.end] = _prefill(q[chunk.start : chunk.end], kv, chunk, scale)
    return out.view(q.shape[0], -1)


def _decode(q: Tensor, kv: LayerKv, group: DecodeGroup, scale: float) -> Tensor:
    """The query heads that share a KV head stand as rows of one product, so K and V are never repeated."""
    count, heads, head_dim = q.shape
    keys, values = gather(kv, group.blocks, count)
    grouped = q.view(count, keys.shape[1], -1, head_dim)
    result = scaled_dot_product_attention(grouped, keys, values, attn_mask=group.mask, scale=scale)
    return result.reshape(count, heads, head_dim)


def _prefill(q: Tensor, kv: LayerKv, chunk: PrefillChunk, scale: float) -> Tensor:
    count, heads, _ = q.shape
    keys, values = gather(kv, chunk.blocks, 1)
    queries = q.transpose(0, 1).unsqueeze(0)
    mask = chunk.mask.view(1, 1, count, -1)
    shared = heads != keys.shape[1]
    result = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale, enable_gqa=shared)
    return result.squeeze(0).transpose(0, 1)


def gather(kv: LayerKv, blocks: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """K and V of ``count`` contexts of equal width, each ``[count, kv_heads, width * 16, head_dim]``."""
    context = kv.read(blocks)
    context = context.view(count, -1, *context.shape[1:])
    return context[:, :, 0].transpose(1, 2), context[:, :, 1].transpose(1, 2)
