"""Causal attention over paged K and V: the PyTorch reference, which is also the CPU's path.

The pool of one layer is ``[blocks, 16, 2, kv_heads, head_dim]`` (index 0 of the third axis is K, 1 is V), so the K
and V of one block are one contiguous row and a request's context is one gather.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Requests with one new token each and contexts of similar length.

    start, end: their rows in the batch. blocks: int64 ``[n * width]``, tables padded with block 0 to ``width``.
    mask: ``[n, 1, 1, width * 16]`` added to the scores, minus infinity where the context has ended.
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
    """Who attends to what; made once a step and used by every layer."""

    decodes: tuple[DecodeGroup, ...]
    prefills: tuple[PrefillChunk, ...]


def plan_decodes(
    tables: list[list[int]], lengths: list[int], block_size: int, dtype: torch.dtype
) -> tuple[DecodeGroup, ...]:
    """Groups the leading ``len(tables)`` rows of a batch, which the caller sorted by length, longest first.

    A group's contexts are padded to its longest, so a group ends where padding would double the shortest.
    """
    groups = []
    start = 0
    while start < len(tables):
        width = -(-lengths[start] // block_size)
        end = start + 1
        while end < len(tables) and 2 * lengths[end] >= lengths[start]:
            end += 1
        blocks = torch.zeros((end - start, width), dtype=torch.int64)
        for row, index in enumerate(range(start, end)):
            used = -(-lengths[index] // block_size)
            blocks[row, :used] = torch.tensor(tables[index][:used])
        ends = torch.tensor(lengths[start:end]).view(-1, 1)
        outside = torch.arange(width * block_size).view(1, -1) >= ends
        mask = torch.zeros(outside.shape, dtype=dtype).masked_fill_(outside, float("-inf"))
        groups.append(DecodeGroup(start, end, blocks.view(-1), mask.view(end - start, 1, 1, -1)))
        start = end
    return tuple(groups)


def plan_prefill(
    start: int, *, table: list[int], first_position: int, count: int, block_size: int, dtype: torch.dtype
) -> PrefillChunk:
    """A chunk of ``count`` tokens at batch row ``start``, whose first token stands at ``first_position``."""
    width = -(-(first_position + count) // block_size)
    positions = torch.arange(first_position, first_position + count).view(-1, 1)
    outside = torch.arange(width * block_size).view(1, -1) > positions
    mask = torch.zeros(outside.shape, dtype=dtype).masked_fill_(outside, float("-inf"))
    return PrefillChunk(start, start + count, torch.tensor(table[:width]), mask)


def paged_attention(q: Tensor, pool: Tensor, plan: AttentionPlan) -> Tensor:
    """Attention of ``q [T, heads, head_dim]`` over one layer's ``pool``; returns ``[T, heads * head_dim]``.

    K and V of the batch's own tokens must already be in the pool. Softmax runs in fp32.
    """
    out = torch.empty_like(q)
    for group in plan.decodes:
        out[group.start : group.end] = _decode(q[group.start : group.end], pool, group)
    for chunk in plan.prefills:
        out[chunk.start : chunk.end] = _prefill(q[chunk.start : chunk.end], pool, chunk)
    return out.view(q.shape[0], -1)


def _decode(q: Tensor, pool: Tensor, group: DecodeGroup) -> Tensor:
    """The query heads that share a KV head stand as rows of one product, so K and V are never repeated."""
    count, heads, head_dim = q.shape
    kv_heads = pool.shape[3]
    context = pool.index_select(0, group.blocks).view(count, -1, 2, kv_heads, head_dim)
    keys, values = context[:, :, 0].transpose(1, 2), context[:, :, 1].transpose(1, 2)
    grouped = q.view(count, kv_heads, heads // kv_heads, head_dim)
    result = scaled_dot_product_attention(grouped, keys, values, attn_mask=group.mask)
    return result.reshape(count, heads, head_dim)


def _prefill(q: Tensor, pool: Tensor, chunk: PrefillChunk) -> Tensor:
    count, heads, head_dim = q.shape
    kv_heads = pool.shape[3]
    context = pool.index_select(0, chunk.blocks).view(1, -1, 2, kv_heads, head_dim)
    keys, values = context[:, :, 0].transpose(1, 2), context[:, :, 1].transpose(1, 2)
    queries = q.transpose(0, 1).unsqueeze(0)
    mask = chunk.mask.view(1, 1, count, -1)
    grouped = heads != kv_heads
    result = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=grouped)
    return result.squeeze(0).transpose(0, 1)
