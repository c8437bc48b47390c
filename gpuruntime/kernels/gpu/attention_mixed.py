"""Attention of a batch in which each request has any number of new tokens: prefill, chunks of it, decodes, all at once.

A program takes ``BLOCK_TOKENS`` consecutive tokens of one request with all the query heads of one KV head, as the
``BLOCK_ROWS`` rows of its products, and walks the tiles that any of them sees. Which request it has, it finds by binary
search: of tokens counted from the first request's on, request ``r`` owns the programs from ``begins[r] // BLOCK_TOKENS
+ r`` on, at most one of which is idle.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.attention_batch import UNSPECIALIZED, Requests, ScoreRule, dot_dtype
from gpuruntime.kernels.gpu.attention_tile import attend_tiles, visible_tiles
from gpuruntime.kernels.gpu.kv_write import KvPool


@triton.jit
def _request_of(program, begins, base, requests, BLOCK_TOKENS: tl.constexpr):
    low = program * 0
    high = requests
    while high - low > 1:
        middle = (low + high) // 2
        if (tl.load(begins + middle) - base) // BLOCK_TOKENS + middle <= program:
            low = middle
        else:
            high = middle
    return low


@triton.jit(do_not_specialize=UNSPECIALIZED)
def attention_mixed_kernel(
    out,
    q,
    far,
    kv,
    scales,
    begins,
    lengths,
    tables,
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
    BLOCK_TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
):
    # The last tokens of a request see the most, so they start first.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)

    base = tl.load(begins)
    request = _request_of(program, begins, base, requests, BLOCK_TOKENS)
    begin = tl.load(begins + request)
    new_tokens = tl.load(begins + request + 1) - begin
    first_token = (program - ((begin - base) // BLOCK_TOKENS + request)) * BLOCK_TOKENS
    if first_token >= new_tokens:
        return

    length = tl.load(lengths + request)
    rows = tl.arange(0, BLOCK_ROWS)
    tokens = first_token + rows // GROUP
    live = (rows < BLOCK_TOKENS * GROUP) & (tokens < new_tokens)
    first_position = length - new_tokens + first_token
    last_position = length - new_tokens + tl.minimum(first_token + BLOCK_TOKENS, new_tokens) - 1
    positions = tl.where(live, length - new_tokens + tokens, -1)

    dims = tl.arange(0, HEAD_PADDED)
    mask = live[:, None] & (dims < HEAD_DIM)[None, :]
    at = (kv_head * GROUP + rows % GROUP)[:, None] * HEAD_DIM + dims[None, :]
    token_rows = (begin + tokens).to(tl.int64)[:, None]
    queries = tl.load(q + token_rows * q_stride + at, mask=mask, other=0.0).to(DOT_DTYPE)
    far_queries = queries
    if HAS_FAR:
        far_queries = tl.load(far + token_rows * q_stride + at, mask=mask, other=0.0).to(DOT_DTYPE)

    table = tables + request.to(tl.int64) * table_width
    sink_tiles, tile_begin, tile_end, lowest = visible_tiles(
        first_position, last_position, window, sinks, HAS_WINDOW, HAS_SINKS, TILE
    )
    end = last_position + 1
    top = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    mixed = tl.zeros([BLOCK_ROWS, HEAD_PADDED], tl.float32)
    if HAS_SINKS:
        top, total, mixed = attend_tiles(
            top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
            0, sink_tiles, lowest, end, window, sinks, scale, softcap,
            True, True, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
            KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
        )  # fmt: skip
    # Tiles that end at or before the first row's position are seen whole by every row, unless a window cuts them.
    whole = tl.maximum((first_position + 1) // TILE, tile_begin)
    top, total, mixed = attend_tiles(
        top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
        tile_begin, whole, lowest, end, window, sinks, scale, softcap,
        HAS_WINDOW, False, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
        KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
    )  # fmt: skip
    top, total, mixed = attend_tiles(
        top, total, mixed, queries, far_queries, positions, kv, scales, table, kv_head,
        whole, tile_end, lowest, end, window, sinks, scale, softcap,
        True, False, HAS_WINDOW, HAS_FAR, HAS_SCALES, HAS_SOFTCAP,
        KV_HEADS, BLOCK_SIZE, HEAD_DIM, HEAD_PADDED, TILE, DOT_DTYPE,
    )  # fmt: skip

    result = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + token_rows * out_stride + at, result.to(out.dtype.element_ty), mask=mask)


@dataclass(frozen=True, slots=True)
class MixedShape:
    """A program's rows (tokens times query heads of one KV head), its keys at a time, and how it is compiled."""

    rows: int
    tile: int
    warps: int
    stages: int


def mixed_shape(head_dim: int, group: int, tokens_per_request: float, architecture: int) -> MixedShape:
    """Large where requests bring many tokens, small where most bring a few; ``architecture``: as 80 or 90.

    Hopper and the Blackwell of data centres multiply from shared memory, of which they have 227 KiB a program. What
    stands elsewhere, of 99 KiB at least, keeps the operands in registers, and larger tiles would not find room there.
    """
    few = max(16, triton.next_power_of_2(group))
    from_shared = 90 <= architecture < 120
    if tokens_per_request * group <= 2 * few:
        return MixedShape(rows=few, tile=32, warps=4, stages=3 if from_shared else 2)
    wide = head_dim > 128
    if not from_shared:
        return MixedShape(rows=max(few, 64), tile=32, warps=8 if wide else 4, stages=2 if wide else 3)
    return MixedShape(rows=max(few, 64 if wide else 128), tile=32 if wide else 64, warps=8, stages=3)


def attend_mixed(
    out: Tensor,
    q: Tensor,
    far: Tensor | None,
    kv: KvPool,
    requests: Requests,
    rule: ScoreRule,
    *,
    tokens: int,
    shape: MixedShape,
) -> None:
    """Writes the attention of the requests' ``tokens`` new tokens into their rows of ``out``; arguments are checked.

    ``tokens`` may be more than there are: it bounds the programs that are started. Shapes: see ``attention``.
    """
    block_size, _, kv_heads, head_dim = kv.values.shape[1:]
    group = q.shape[1] // kv_heads
    block_tokens = shape.rows // group
    grid = (tokens // block_tokens + len(requests), kv_heads)
    attention_mixed_kernel[grid](
        out,
        q,
        far,
        kv.values,
        kv.scales,
        requests.begins,
        requests.lengths,
        requests.tables,
        len(requests),
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
        HEAD_PADDED=triton.next_power_of_2(head_dim),
        BLOCK_ROWS=shape.rows,
        BLOCK_TOKENS=block_tokens,
        TILE=shape.tile,
        DOT_DTYPE=dot_dtype(q),
        num_warps=shape.warps,
        num_stages=shape.stages,
    )
