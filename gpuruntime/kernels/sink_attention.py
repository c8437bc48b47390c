"""Attention to the first tokens and a rolling window (StreamingLLM, Xiao et al., arXiv:2309.17453).

In the paper positions are those inside the cache: the sinks stand at 0 .. sinks - 1, the window right behind them, and
K is kept unrotated and rotated anew for every step. Here K is written once, rotated at its place in the text, and the
query is rotated twice instead: at its own place for the window's keys, and at its place inside the cache for the
sinks' keys. A rotary score depends only on the distance between the two rotations, so both give the same scores; K
stays as the prefix cache keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpuruntime.kernels.kv_memory import LayerKv
from gpuruntime.kernels.paged_attention import AttentionPlan, DecodeGroup, PrefillChunk, View, gather


def cache_positions(view: View, positions: Tensor) -> Tensor:
    """Where queries at ``positions`` stand inside a cache that holds the sinks and the window."""
    if view.window is None:
        return positions
    return positions.clamp_max(view.sinks + view.window - 1)


@dataclass(frozen=True, slots=True)
class SinkQueries:
    """Both rotations of the queries, ``[T, heads, head_dim]``: ``near`` for the window, ``far`` for the sinks."""

    near: Tensor
    far: Tensor

    def rows(self, start: int, end: int) -> SinkQueries:
        return SinkQueries(self.near[start:end], self.far[start:end])


def sink_attention(q: SinkQueries, kv: LayerKv, plan: AttentionPlan, scale: float) -> Tensor:
    """Like ``paged_attention`` for a plan whose view has sinks."""
    out = torch.empty_like(q.near)
    for group in plan.decodes:
        out[group.start : group.end] = _decode(q.rows(group.start, group.end), kv, group, plan.view.sinks, scale)
    for chunk in plan.prefills:
        out[chunk.start : chunk.end] = _prefill(q.rows(chunk.start, chunk.end), kv, chunk, plan.view.sinks, scale)
    return out.view(out.shape[0], -1)


def _decode(q: SinkQueries, kv: LayerKv, group: DecodeGroup, sinks: int, scale: float) -> Tensor:
    count, heads, head_dim = q.near.shape
    keys, values = gather(kv, group.blocks, count)
    near, far = (part.view(count, keys.shape[1], -1, head_dim) for part in (q.near, q.far))
    weights = torch.softmax(_scores(near, far, keys, sinks) * scale + group.mask, dim=-1)
    return (weights.to(values.dtype) @ values).reshape(count, heads, head_dim)


def _prefill(q: SinkQueries, kv: LayerKv, chunk: PrefillChunk, sinks: int, scale: float) -> Tensor:
    count, heads, head_dim = q.near.shape
    keys, values = (part.transpose(0, 1) for part in gather(kv, chunk.blocks, 1))
    near, far = (part.view(count, keys.shape[0], -1, head_dim).permute(1, 2, 0, 3) for part in (q.near, q.far))
    weights = torch.softmax(_scores(near, far, keys, sinks) * scale + chunk.mask, dim=-1)
    mixed = weights.to(values.dtype) @ values
    return mixed.permute(2, 0, 1, 3).reshape(count, heads, head_dim)


def _scores(near: Tensor, far: Tensor, keys: Tensor, sinks: int) -> Tensor:
    """fp32 ``q k^T``. A gather starts with block 0, so its first ``sinks`` columns are the sinks."""
    columns = keys.transpose(-1, -2)
    return torch.cat((far @ columns[..., :sinks], near @ columns[..., sinks:]), dim=-1).float()
