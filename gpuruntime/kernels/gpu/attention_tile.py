"""The step that all attention kernels share: some query rows against a run of tiles of one context's K and V.

The softmax runs online (Milakov & Gimelshein, arXiv:1805.02867; FlashAttention, arXiv:2205.14135) in base 2. A tile is
``TILE`` keys at a multiple of ``TILE`` in the context, wherever the blocks lie in memory, so what a row computes does
not depend on how a batch was cut.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def visible_tiles(first, last, window, sinks, HAS_WINDOW: tl.constexpr, HAS_SINKS: tl.constexpr, TILE: tl.constexpr):
    """Which tiles hold a key that a query at the positions ``first .. last`` sees.

    Returns (sink tiles, the first tile of the rest, the end of the rest, the first key inside the window); the sink
    tiles are the first of the context and overlap no other.
    """
    end = (last + TILE) // TILE
    lowest = first * 0
    if HAS_WINDOW:
        lowest = tl.maximum(first - window + 1, 0)
    sink_tiles = first * 0
    if HAS_SINKS:
        sink_tiles = tl.minimum((sinks + TILE - 1) // TILE, end)
    return sink_tiles, tl.maximum(lowest // TILE, sink_tiles), end, lowest


@triton.jit
def attend_tiles(
    top,
    total,
    mixed,
    q,
    far,
    positions,
    kv,
    scales,
    table,
    kv_head,
    tile_begin,
    tile_end,
    lowest,
    end,
    window,
    sinks,
    scale,
    softcap,
    MASKED: tl.constexpr,
    SINK_TILES: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_FAR: tl.constexpr,
    HAS_SCALES: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
):
    """Adds the tiles ``tile_begin .. tile_end - 1`` to a softmax over the rows of ``q [M, HEAD_PADDED]``.

    top, total, mixed: the state, ``[M]``, ``[M]`` and ``[M, HEAD_PADDED]``. far: the queries for the sinks where
    ``HAS_FAR``. positions: ``[M]``, where the rows stand in the context; -1 sees nothing. table: the context's blocks.
    lowest, end: keys below and from these on are in no row's window and are not read. Without ``MASKED`` every row
    sees every key.
    """
    offsets = tl.arange(0, TILE)
    dims = tl.arange(0, HEAD_PADDED)
    blocks = _blocks(tile_begin, offsets, end, table, BLOCK_SIZE, TILE)
    for tile in range(tile_begin, tile_end):
        keys = tile * TILE + offsets
        read = keys < end
        if HAS_WINDOW:
            read = read & _inside(keys, lowest, sinks, SINK_TILES)
        rows = (blocks * BLOCK_SIZE + keys % BLOCK_SIZE) * (2 * KV_HEADS) + kv_head
        # One tile ahead: were K's address to wait for a load of its own turn, it could not be in flight as early.
        blocks = _blocks(tile + 1, offsets, end, table, BLOCK_SIZE, TILE)
        k_at = kv + rows[None, :] * HEAD_DIM + dims[:, None]
        v_at = kv + (rows + KV_HEADS)[:, None] * HEAD_DIM + dims[None, :]
        if MASKED:
            # What lies in unwritten slots may be NaN, and NaN times a probability of 0 is NaN.
            k = tl.load(k_at, mask=read[None, :] & (dims < HEAD_DIM)[:, None], other=0.0).to(DOT_DTYPE)
            v = tl.load(v_at, mask=read[:, None] & (dims < HEAD_DIM)[None, :], other=0.0).to(DOT_DTYPE)
        elif HEAD_DIM == HEAD_PADDED:
            k = tl.load(k_at).to(DOT_DTYPE)
            v = tl.load(v_at).to(DOT_DTYPE)
        else:
            k = tl.load(k_at, mask=(dims < HEAD_DIM)[:, None], other=0.0).to(DOT_DTYPE)
            v = tl.load(v_at, mask=(dims < HEAD_DIM)[None, :], other=0.0).to(DOT_DTYPE)

        scores = tl.dot(q, k, input_precision="ieee")
        if HAS_FAR and SINK_TILES:
            scores = tl.where((keys < sinks)[None, :], tl.dot(far, k, input_precision="ieee"), scores)
        scores *= scale
        if HAS_SCALES:
            scores *= tl.load(scales + rows, mask=read, other=0.0)[None, :]
        if HAS_SOFTCAP:
            # tanh by one exponential; it saturates at both ends.
            scores = softcap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2E / softcap)) + 1.0))
        scores *= LOG2E
        if MASKED:
            seen = keys[None, :] <= positions[:, None]
            if HAS_WINDOW:
                seen = seen & _inside(keys[None, :], (positions - window + 1)[:, None], sinks, SINK_TILES)
            scores = tl.where(seen, scores, float("-inf"))

        new_top = tl.maximum(top, tl.max(scores, axis=1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top) if MASKED else new_top
        weights = tl.exp2(scores - base[:, None])
        kept = tl.exp2(top - base)
        total = total * kept + tl.sum(weights, axis=1)
        if HAS_SCALES:
            weights *= tl.load(scales + rows + KV_HEADS, mask=read, other=0.0)[None, :]
        mixed = tl.dot(weights.to(DOT_DTYPE), v, mixed * kept[:, None], input_precision="ieee")
        top = new_top
    return top, total, mixed


@triton.jit
def _inside(keys, lowest, sinks, SINK_TILES: tl.constexpr):
    inside = keys >= lowest
    if SINK_TILES:
        inside = inside | (keys < sinks)
    return inside


@triton.jit
def _blocks(tile, offsets, end, table, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr):
    """The blocks of a tile's keys, int64; keys behind the end have the last one's. A tile inside a block has one."""
    start = tile * TILE
    keys = start if BLOCK_SIZE % TILE == 0 else start + offsets
    return tl.load(table + tl.maximum(tl.minimum(keys, end - 1), 0) // BLOCK_SIZE).to(tl.int64)
