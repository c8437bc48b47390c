"""Ragged batches over paged K and V, and attention to them in float64 from the unpaged K and V.

Whatever a request does not have to read is NaN: the rest of its last block, blocks of nobody, what its window has left
behind, and the block that the ends of the tables name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.kernels.gpu.attention_batch import Requests, ScoreRule
from gpuruntime.kernels.gpu.kv_write import KvPool

Floats = NDArray[np.float64]
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


@dataclass(frozen=True)
class Heads:
    query: int
    kv: int
    dim: int


@dataclass(frozen=True)
class Batch:
    """``contexts``: each request's K and V as they were, and as the pool keeps them, ``[length, 2, kv heads, dim]``."""

    q: Tensor
    far: Tensor
    kv: KvPool
    requests: Requests
    exact: list[Floats]
    kept: list[Floats]


def make_batch(
    shape: Sequence[tuple[int, int]],
    heads: Heads,
    rule: ScoreRule,
    *,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    kv_dtype: torch.dtype | None = None,
    seed: int = 0,
    width: int = 0,
) -> Batch:
    """``shape``: each request's new tokens and its context's tokens with them. Every request's own numbers depend only
    on ``seed`` and its place; where its blocks lie depends on the whole batch."""
    kv_dtype = kv_dtype or dtype
    counts = [-(-length // block_size) for _, length in shape]
    order = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(seed))
    poison, free = int(order[0]), order[1:].tolist()
    values = torch.full((len(order), block_size, 2, heads.kv, heads.dim), float("nan"), dtype=torch.float32)
    values = torch.full(values.shape, 99, dtype=kv_dtype) if kv_dtype == torch.int8 else values.to(kv_dtype)
    scales = torch.full(values.shape[:4], float("nan")) if kv_dtype in LARGEST else None
    tables = torch.full((len(shape), max([width, 1, *counts])), poison, dtype=torch.int32)
    queries, far, exact, kept = [], [], [], []
    for row, (new, length) in enumerate(shape):
        random = torch.Generator().manual_seed(1000 * seed + row)
        context = torch.randn(length, 2, heads.kv, heads.dim, generator=random).to(dtype).float()
        stored, scale = _store(context, kv_dtype)
        queries.append(torch.randn(new, heads.query, heads.dim, generator=random).to(dtype))
        far.append(torch.randn(new, heads.query, heads.dim, generator=random).to(dtype))
        blocks = [free.pop() for _ in range(counts[row])]
        tables[row, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        for position in range(length):
            oldest = length - new
            if rule.window and rule.sinks <= position <= oldest - rule.window:
                continue
            place = blocks[position // block_size], position % block_size
            values[place] = stored[position]
            if scales is not None:
                scales[place] = scale[position]
        exact.append(context.double().numpy())
        kept.append((stored.double() * scale.double().unsqueeze(-1)).numpy())
    begins = np.concatenate(([0], np.cumsum([new for new, _ in shape]))).astype(np.int32)
    lengths = torch.tensor([length for _, length in shape], dtype=torch.int32)
    requests = Requests(torch.from_numpy(begins), lengths, tables)
    return Batch(torch.cat(queries), torch.cat(far), KvPool(values, scales), requests, exact, kept)


def _store(context: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if dtype not in LARGEST:
        return context.to(dtype), torch.ones(context.shape[:3])
    scale = context.abs().amax(dim=-1) / LARGEST[dtype]
    scaled = context / scale.unsqueeze(-1)
    return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), scale


def exact_attention(batch: Batch, rule: ScoreRule, contexts: list[Floats], *, use_far: bool = False) -> Floats:
    """``[T, heads, dim]`` from the definition, a token and a head at a time."""
    q, far = batch.q.double().numpy(), batch.far.double().numpy()
    out = np.zeros_like(q)
    begins = batch.requests.begins.tolist()
    for row, context in enumerate(contexts):
        begin, end = begins[row], begins[row + 1]
        for token in range(begin, end):
            position = len(context) - (end - token)
            seen = [
                key
                for key in range(position + 1)
                if not rule.window or key > position - rule.window or key < rule.sinks
            ]
            for head in range(q.shape[1]):
                k, v = context[seen, :, head * context.shape[2] // q.shape[1]].swapaxes(0, 1)
                scores = k @ q[token, head]
                if use_far:
                    distant = np.array(seen) < rule.sinks
                    scores[distant] = k[distant] @ far[token, head]
                scores = scores * rule.scale
                if rule.softcap is not None:
                    scores = rule.softcap * np.tanh(scores / rule.softcap)
                weights = np.exp(scores - scores.max())
                out[token, head] = weights @ v / weights.sum()
    return out


def worst(found: Tensor, expected: Floats) -> float:
    """The largest error of a token's head relative to the head's size; infinite where anything is not finite."""
    difference = found.double().numpy().reshape(expected.shape) - expected
    if not difference.size:
        return 0.0
    ratio = np.linalg.norm(difference, axis=-1) / np.linalg.norm(expected, axis=-1)
    return float(ratio.max()) if np.isfinite(ratio).all() else float("inf")
