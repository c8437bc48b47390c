"""Causal attention over paged K and V on the GPU: which kernel takes which of a batch's requests.

Requests with one new token stand first in a batch, as the engine orders it, and go to the decode kernel; the others go
to the kernel of any lengths. So a token's path does not depend on what else is in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpuruntime.kernels.gpu.attention_batch import Requests, ScoreRule, check_pool, check_queries
from gpuruntime.kernels.gpu.attention_decode import Shares, attend_decodes, decode_shape, plan_shares
from gpuruntime.kernels.gpu.attention_mixed import attend_mixed, mixed_shape
from gpuruntime.kernels.gpu.kv_write import KvPool

_MANY = 1 << 20
_PROGRAMS_PER_MULTIPROCESSOR = 2
_WITHOUT_A_DEVICE = 8
_INTERPRETED = 90


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """A batch under one rule; made once a step for each rule and used by every layer that has it.

    decodes: how many of the first requests have one new token each. invariant: whether a token's result has the same
    bits whatever else is in the batch.
    """

    requests: Requests
    rule: ScoreRule
    decodes: int
    shares: Shares | None
    invariant: bool


def plan_attention(
    requests: Requests,
    rule: ScoreRule,
    kv: KvPool,
    *,
    decodes: int,
    programs: int | None = None,
    invariant: bool = False,
) -> AttentionPlan:
    """Launches what the device has to decide for a step. ``kv``: any layer's pool of the model.

    programs: how many programs of the decode kernel fill the device (None: as many as its multiprocessors take).
    Raises ``ValueError`` for ``decodes`` outside 0 .. the number of requests and for pools without a kernel.
    """
    if not 0 <= decodes <= len(requests):
        raise ValueError(f"{decodes} decodes among {len(requests)} requests")
    check_pool(kv)
    shares = None
    if decodes:
        block_size, _, kv_heads, head_dim = kv.values.shape[1:]
        shares = plan_shares(
            requests.rows(0, decodes),
            rule,
            decode_shape(head_dim),
            block_size=block_size,
            programs=max(1, (programs or _programs(kv.values.device)) // kv_heads),
            fixed=invariant,
        )
    return AttentionPlan(requests, rule, decodes, shares, invariant)


def attention(q: Tensor, kv: KvPool, plan: AttentionPlan, *, far: Tensor | None = None) -> Tensor:
    """Attention of ``q [T, heads, head_dim]`` over one layer's ``kv``; returns ``[T, heads * head_dim]`` of its type.

    K and V of the batch's own tokens must already be written. ``heads`` is a multiple of the KV heads, and a token's
    heads lie one behind the other (tokens may be strided). far: the queries as ``sink_attention.SinkQueries.far``, for
    the keys of the sinks (None: ``q``). Rows of no request keep whatever was in memory. The softmax and the sums run in
    fp32. Raises ``ValueError`` for shapes, types and pools without a kernel.
    """
    check_pool(kv)
    check_queries(q, far, kv)
    requests, rule = plan.requests, plan.rule
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if plan.shares is not None:
        attend_decodes(out, q, far, kv, requests.rows(0, plan.decodes), rule, plan.shares)
    others = len(requests) - plan.decodes
    if others:
        tokens = q.shape[0] - plan.decodes
        group = q.shape[1] // kv.values.shape[3]
        many = _MANY if plan.invariant else tokens / others
        shape = mixed_shape(q.shape[2], group, many, _architecture(q.device))
        rest = requests.rows(plan.decodes, len(requests))
        attend_mixed(out, q, far, kv, rest, rule, tokens=tokens, shape=shape)
    return out.flatten(1)


def attention_reference(q: Tensor, kv: KvPool, plan: AttentionPlan, *, far: Tensor | None = None) -> Tensor:
    """What ``attention`` does, in PyTorch, one request after the other; rows of no request are zeros."""
    requests, rule = plan.requests, plan.rule
    kv_heads = kv.values.shape[3]
    out = torch.zeros_like(q, dtype=torch.float32)
    bounds = requests.begins.tolist()
    for row, length in enumerate(requests.lengths.tolist()):
        begin, end = bounds[row], bounds[row + 1]
        if begin == end or length == 0:
            continue
        positions = torch.arange(length - (end - begin), length, device=q.device)[:, None]
        columns = torch.arange(length, device=q.device)
        hidden = columns > positions
        if rule.window:
            hidden |= (columns <= positions - rule.window) & (columns >= rule.sinks)
        shown = torch.nonzero(~hidden.all(dim=0)).squeeze(1)
        keys, values = _context(kv, requests.tables[row], shown)
        scores = _scores(q[begin:end], keys, kv_heads)
        if far is not None and rule.sinks:
            scores = torch.where(shown < rule.sinks, _scores(far[begin:end], keys, kv_heads), scores)
        scores = scores * rule.scale
        if rule.softcap is not None:
            scores = rule.softcap * torch.tanh(scores / rule.softcap)
        weights = torch.softmax(scores.masked_fill(hidden[:, shown], -torch.inf), dim=-1)
        out[begin:end] = torch.einsum("kgts,skd->tkgd", weights, values).flatten(1, 2)
    return out.to(q.dtype).flatten(1)


def _context(kv: KvPool, table: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """fp32 K and V, each ``[n, kv_heads, head_dim]``, of some positions of one context."""
    block_size = kv.values.shape[1]
    slots = table[positions // block_size].long(), positions % block_size
    rows = kv.values[slots].float()
    if kv.scales is not None:
        rows = rows * kv.scales[slots].unsqueeze(-1)
    return rows[:, 0], rows[:, 1]


def _scores(q: Tensor, keys: Tensor, kv_heads: int) -> Tensor:
    """fp32 ``[kv_heads, group, tokens, keys]``."""
    grouped = q.float().reshape(q.shape[0], kv_heads, -1, q.shape[2])
    return torch.einsum("tkgd,skd->kgts", grouped, keys)


def _programs(device: torch.device) -> int:
    """Of a MIG slice these are the slice's own multiprocessors."""
    if device.type != "cuda":
        return _WITHOUT_A_DEVICE
    return int(torch.cuda.get_device_properties(device).multi_processor_count) * _PROGRAMS_PER_MULTIPROCESSOR


def _architecture(device: torch.device) -> int:
    if device.type != "cuda":
        return _INTERPRETED
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
