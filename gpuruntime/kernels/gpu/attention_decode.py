"""Attention of requests with one new token each, whose contexts are split among programs (Flash-Decoding).

How many programs a request gets is decided on the device from the lengths, so that a captured graph adapts to them: one
small kernel gives each request as many shares as its tiles fill, a share being what spreads all tiles over the device.
A request with one share is written at once; the others' partial results are joined by a reduction. Where results must
not depend on what else is in the batch, a share is a fixed number of tiles instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.attention_batch import UNSPECIALIZED, Requests, ScoreRule, dot_dtype
from gpuruntime.kernels.gpu.attention_tile import attend_tiles, visible_tiles
from gpuruntime.kernels.gpu.kv_write import KvPool

SMALLEST_SHARE = 128  # tokens: below it a program's start costs more than it saves
FIXED_SHARE = 512  # tokens
_PLAN_CHUNK = 256
_JOINED = 16


@triton.jit
def _count_tiles(
    lengths, at, live, window, sinks, HAS_WINDOW: tl.constexpr, HAS_SINKS: tl.constexpr, TILE: tl.constexpr
):
    last = tl.load(lengths + at, mask=live, other=0) - 1
    sink_tiles, begin, end, _ = visible_tiles(last, last, window, sinks, HAS_WINDOW, HAS_SINKS, TILE)
    return tl.where(live, sink_tiles + end - begin, 0)


@triton.jit(do_not_specialize=("requests", "window", "sinks", "programs", "smallest"))
def plan_shares_kernel(
    share_begins,
    share_tiles,
    lengths,
    requests,
    window,
    sinks,
    programs,
    smallest,
    HAS_WINDOW: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    FIXED: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One program. share_begins: ``[requests + 1]``; share_tiles: ``[1]``, how many tiles a share has."""
    offsets = tl.arange(0, CHUNK)
    share = smallest
    if not FIXED:
        tiles = tl.zeros([CHUNK], tl.int32)
        for start in range(0, requests, CHUNK):
            at = start + offsets
            tiles += _count_tiles(lengths, at, at < requests, window, sinks, HAS_WINDOW, HAS_SINKS, TILE)
        share = tl.maximum(smallest, (tl.sum(tiles, axis=0) + programs - 1) // programs)
    tl.store(share_tiles, share)
    tl.store(share_begins, 0)
    begin = share * 0
    for start in range(0, requests, CHUNK):
        at = start + offsets
        live = at < requests
        tiles = _count_tiles(lengths, at, live, window, sinks, HAS_WINDOW, HAS_SINKS, TILE)
        # A row without a context, as a captured graph has them, has one share too: it writes zeros.
        shares = tl.where(live, tl.maximum((tiles + share - 1) // share, 1), 0)
        tl.store(share_begins + 1 + at, begin + tl.cumsum(shares, axis=0), mask=live)
        begin += tl.sum(shares, axis=0)


@triton.jit
def _request_of(program, share_begins, requests):
    low = program * 0
    high = requests
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(share_begins + middle) <= program:
            low = middle
        else:
            high = middle
    return low


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_decode_kernel(
    out,
    partial,
    logs,
    q,
    far,
    kv,
    scales,
    begins,
    lengths,
    tables,
    share_begins,
    share_tiles,
    requests,
    table_width,
    q_stride,
    out_stride,
    window,
    sinks,
    scale,
    softcap,
    HAS_WINDOW: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    HAS_FAR: tl.constexpr,
    HAS_SCALES: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
):
    """A program has one share of one request and the query heads of one KV head.

    partial: fp32 ``[shares, heads, head_dim]`` and logs: fp32 ``[shares, heads]``, the mean of V of a share and the
    base-2 logarithm of its sum of exponentials, of requests with several shares.
    """
    program = tl.program_id(0)
    kv_head = tl.program_id(1)
    if program >= tl.load(share_begins + requests):
        return
    request = _request_of(program, share_begins, requests)
    share_begin = tl.load(share_begins + request)
    shares = tl.load(share_begins + request + 1) - share_begin
    per_share = tl.load(share_tiles)
    position = tl.load(lengths + request) - 1

    rows = tl.arange(0, BLOCK_ROWS)
    dims = tl.arange(0, HEAD_PADDED)
    live = rows < GROUP
    positions = tl.where(live, position, -1)
    mask = live[:, None] & (dims < HEAD_DIM)[None, :]
    heads = kv_head * GROUP + rows
    at = heads[:, None] * HEAD_DIM + dims[None, :]
    token = tl.load(begins + request).to(tl.int64)
    queries = tl.load(q + token * q_stride + at, mask=mask, other=0.0).to(DOT_DTYPE)
    far_queries = queries
    if HAS_FAR:
        far_queries = tl.load(far + token * q_stride + at, mask=mask, other=0.0).to(DOT_DTYPE)

    table = tables + request.to(tl.int64) * table_width
    sink_tiles, tile_begin, tile_end, lowest = visible_tiles(
        position, position, window, sinks, HAS_WINDOW, HAS_SINKS, TILE
    )
    # The share's tiles, counted over those that are seen: first the sinks', then the rest.
    first = (program - share_begin) * per_share
    last = tl.minimum(first + per_share, sink_tiles + tile_end - tile_begin)
    end = position + 1
    top = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    mixed = tl.zeros([BLOCK_ROWS, HEAD_PADDED], tl.float32)
    if HAS_SINKS:
        top, total, mixed = attend_tiles(
            top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
            first, tl.minimum(last, sink_tiles), lowest, end, window, sinks, scale, softcap,
            True, True, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
            KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
        )  # fmt: skip
    begin = tile_begin + tl.maximum(first - sink_tiles, 0)
    stop = tile_begin + last - sink_tiles
    whole = tl.maximum(tl.minimum(end // TILE, stop), begin)
    top, total, mixed = attend_tiles(
        top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
        begin, whole, lowest, end, window, sinks, scale, softcap,
        HAS_WINDOW, False, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
        KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
    )  # fmt: skip
    top, total, mixed = attend_tiles(
        top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
        whole, stop, lowest, end, window, sinks, scale, softcap,
        True, False, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
        KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
    )  # fmt: skip

    total = tl.where(total == 0.0, 1.0, total)
    result = mixed / total[:, None]
    if shares == 1:
        tl.store(out + token * out_stride + at, result.to(out.dtype.element_ty), mask=mask)
    else:
        row = program.to(tl.int64) * (KV_HEADS * GROUP)
        tl.store(partial + row * HEAD_DIM + at, result, mask=mask)
        tl.store(logs + row + heads, top + tl.log2(total), mask=live)


@triton.jit
def join_shares_kernel(
    out,
    partial,
    logs,
    begins,
    share_begins,
    out_stride,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    JOINED: tl.constexpr,
):
    """One program a request and query head; it reads ``JOINED`` shares at a time, always in their order."""
    request = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(share_begins + request)
    last = tl.load(share_begins + request + 1)
    if last - first == 1:
        return
    dims = tl.arange(0, HEAD_PADDED)
    inside = dims < HEAD_DIM
    top = float("-inf")
    total = 0.0
    mixed = tl.zeros([HEAD_PADDED], tl.float32)
    for start in range(first, last, JOINED):
        shares = start + tl.arange(0, JOINED)
        live = shares < last
        rows = shares.to(tl.int64) * HEADS + head
        found = tl.load(logs + rows, mask=live, other=float("-inf"))
        parts = tl.load(
            partial + rows[:, None] * HEAD_DIM + dims[None, :], mask=live[:, None] & inside[None, :], other=0.0
        )
        new_top = tl.maximum(top, tl.max(found, axis=0))
        weights = tl.exp2(found - new_top)
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(weights, axis=0)
        mixed = mixed * kept + tl.sum(parts * weights[:, None], axis=0)
        top = new_top
    token = tl.load(begins + request).to(tl.int64)
    tl.store(out + token * out_stride + head * HEAD_DIM + dims, (mixed / total).to(out.dtype.element_ty), mask=inside)


@dataclass(frozen=True, slots=True)
class DecodeShape:
    """A program's keys at a time, and how it is compiled."""

    tile: int
    warps: int
    stages: int


def decode_shape(head_dim: int) -> DecodeShape:
    """``stages`` tiles in flight hide the memory's latency at one or two programs a multiprocessor."""
    return DecodeShape(tile=64 if head_dim <= 128 else 32, warps=4, stages=3)


@dataclass(frozen=True, slots=True)
class Shares:
    """How the contexts of a batch's decodes are split: of one view, used by every layer that has it.

    begins: int32 ``[R + 1]``, request ``r`` has the shares ``begins[r] : begins[r + 1]``. tiles: int32 ``[1]``, the
    tiles of a share. most: the most shares there can be, known on the host.
    """

    begins: Tensor
    tiles: Tensor
    most: int
    shape: DecodeShape


def plan_shares(
    requests: Requests, rule: ScoreRule, shape: DecodeShape, *, block_size: int, programs: int, fixed: bool
) -> Shares:
    """Splits contexts into about ``programs`` shares in all, or into shares of ``FIXED_SHARE`` tokens if ``fixed``."""
    count, width = requests.tables.shape
    device = requests.lengths.device
    begins = torch.empty(count + 1, dtype=torch.int32, device=device)
    tiles = torch.empty(1, dtype=torch.int32, device=device)
    smallest = FIXED_SHARE if fixed else SMALLEST_SHARE
    plan_shares_kernel[(1,)](
        begins,
        tiles,
        requests.lengths,
        count,
        rule.window,
        rule.sinks,
        programs,
        smallest // shape.tile,
        HAS_WINDOW=rule.window > 0,
        HAS_SINKS=rule.sinks > 0,
        FIXED=fixed,
        TILE=shape.tile,
        CHUNK=_PLAN_CHUNK,
    )
    most = count * -(-width * block_size // smallest)
    return Shares(begins, tiles, most if fixed else min(most, count + programs), shape)


def attend_decodes(
    out: Tensor, q: Tensor, far: Tensor | None, kv: KvPool, requests: Requests, rule: ScoreRule, shares: Shares
) -> None:
    """Writes the attention of each request's one new token into its row of ``out``; arguments are checked.

    Shapes: see ``attention``. A request with the length 0 gets zeros.
    """
    block_size, _, kv_heads, head_dim = kv.values.shape[1:]
    heads = q.shape[1]
    group = heads // kv_heads
    count = len(requests)
    split = shares.most > count
    # With one share each nothing is partial, and the kernel has no use for the memory.
    partial = torch.empty((shares.most if split else 1, heads, head_dim), dtype=torch.float32, device=q.device)
    logs = torch.empty(partial.shape[:2], dtype=torch.float32, device=q.device)
    padded = triton.next_power_of_2(head_dim)
    attention_decode_kernel[(shares.most, kv_heads)](
        out,
        partial,
        logs,
        q,
        far,
        kv.values,
        kv.scales,
        requests.begins,
        requests.lengths,
        requests.tables,
        shares.begins,
        shares.tiles,
        count,
        requests.tables.stride(0),
        q.stride(0),
        out.stride(0),
        rule.window,
        rule.sinks,
        rule.scale,
        rule.softcap or 0.0,
        HAS_WINDOW=rule.window > 0,
        HAS_SINKS=rule.sinks > 0,
        HAS_FAR=far is not None,
        HAS_SCALES=kv.scales is not None,
        HAS_SOFTCAP=rule.softcap is not None,
        GROUP=group,
        KV_HEADS=kv_heads,
        BLOCK_SIZE=block_size,
        HEAD_DIM=head_dim,
        HEAD_PADDED=padded,
        BLOCK_ROWS=max(16, triton.next_power_of_2(group)),
        TILE=shares.shape.tile,
        DOT_DTYPE=dot_dtype(q),
        num_warps=shares.shape.warps,
        num_stages=shares.shape.stages,
    )
    if split:
        join_shares_kernel[(count, heads)](
            out,
            partial,
            logs,
            requests.begins,
            shares.begins,
            out.stride(0),
            HEADS=heads,
            HEAD_DIM=head_dim,
            HEAD_PADDED=padded,
            JOINED=_JOINED,
        )
