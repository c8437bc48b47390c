"""From the fused product to attention: norms of q and k, rotation, and K and V into their pool, read and written once.

A program takes a few heads of one token as a tile ``[heads, head_dim / 2]`` of each half, for the rotation joins a
value with the one half a head away. Q, K and V heads share the tile: where a head is not rotated its cosine is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.backend import HeadNorms
from gpuruntime.kernels.gpu.configuration import Configuration

_HEADS = 8
LIMITS = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


@dataclass(frozen=True, slots=True)
class KvPool:
    """K and V of one layer in blocks.

    values: ``[blocks, block_size, 2, kv_heads, head_dim]``, K before V, of fp32, fp16, bf16, int8 or fp8 (e4m3).
    scales: fp32 ``[blocks, block_size, 2, kv_heads]`` for int8 and fp8, where a value is ``stored * scale``; else None.
    """

    values: Tensor
    scales: Tensor | None = None


@triton.jit
def kv_write_kernel(
    qkv,
    positions,
    slots,
    cos,
    sin,
    q_norm,
    k_norm,
    q_out,
    values,
    scales,
    num_heads,
    num_kv_heads,
    eps,
    HEAD_DIM: tl.constexpr,
    HALF: tl.constexpr,
    HEADS: tl.constexpr,
    HAS_NORM: tl.constexpr,
    LIMIT: tl.constexpr,
    ROUND: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pairs = tl.arange(0, HALF)
    is_q = heads < num_heads
    is_v = heads >= num_heads + num_kv_heads
    num_rows = num_heads + 2 * num_kv_heads
    half_dim: tl.constexpr = HEAD_DIM // 2
    inside = (heads < num_rows)[:, None] & (pairs < half_dim)[None, :]
    source = qkv + token * num_rows * HEAD_DIM + heads[:, None] * HEAD_DIM + pairs[None, :]
    low = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + half_dim, mask=inside, other=0.0).to(tl.float32)

    if HAS_NORM:
        inverse = tl.rsqrt(tl.sum(low * low + high * high, axis=1) / HEAD_DIM + eps)
        inverse = tl.where(is_v, 1.0, inverse)[:, None]
        real = pairs < half_dim
        low *= inverse * _head_weights(q_norm, k_norm, pairs, real, is_q, is_v)
        high *= inverse * _head_weights(q_norm, k_norm, pairs + half_dim, real, is_q, is_v)

    angle = tl.load(positions + token).to(tl.int64) * half_dim + pairs
    cosine = tl.load(cos + angle, mask=pairs < half_dim, other=1.0)[None, :]
    sine = tl.load(sin + angle, mask=pairs < half_dim, other=0.0)[None, :]
    cosine = tl.where(is_v[:, None], 1.0, cosine)
    sine = tl.where(is_v[:, None], 0.0, sine)
    rotated_low = low * cosine - high * sine
    rotated_high = high * cosine + low * sine

    target = q_out + token * num_heads * HEAD_DIM + heads[:, None] * HEAD_DIM + pairs[None, :]
    written = inside & is_q[:, None]
    tl.store(target, rotated_low.to(q_out.dtype.element_ty), mask=written)
    tl.store(target + half_dim, rotated_high.to(q_out.dtype.element_ty), mask=written)

    # A row of the pool holds the K heads and then the V heads, as the product leaves them.
    row = slot * 2 * num_kv_heads + (heads - num_heads)
    stored = (heads >= num_heads) & (heads < num_rows) & (slot >= 0)
    if LIMIT > 0:
        largest = tl.max(tl.maximum(tl.abs(rotated_low), tl.abs(rotated_high)), axis=1)
        scale = largest / LIMIT
        tl.store(scales + row, scale, mask=stored)
        step = tl.maximum(scale, 1.1754943508222875e-38)[:, None]  # a head of zeros has the scale 0
        rotated_low = _quantize(rotated_low, step, LIMIT, ROUND)
        rotated_high = _quantize(rotated_high, step, LIMIT, ROUND)
    place = values + row[:, None] * HEAD_DIM + pairs[None, :]
    written = inside & stored[:, None]
    tl.store(place, rotated_low.to(values.dtype.element_ty), mask=written)
    tl.store(place + half_dim, rotated_high.to(values.dtype.element_ty), mask=written)


@triton.jit
def _head_weights(q_norm, k_norm, columns, real, is_q, is_v):
    q = tl.load(q_norm + columns, mask=real, other=0.0).to(tl.float32)[None, :]
    k = tl.load(k_norm + columns, mask=real, other=0.0).to(tl.float32)[None, :]
    return tl.where(is_v[:, None], 1.0, tl.where(is_q[:, None], q, k))


@triton.jit
def _quantize(x, step, LIMIT: tl.constexpr, ROUND: tl.constexpr):
    x = tl.minimum(tl.maximum(tl.div_rn(x, step), -LIMIT), LIMIT)
    if ROUND:
        # Adding 1.5 * 2^23 leaves no bit for a fraction: to the nearest integer, ties to even.
        return (x + 12582912.0) - 12582912.0
    # To the nearest value of e4m3, ties to even, so that the conversion is exact: the interpreter's cuts bits off.
    # Three bits of mantissa stay, and below 2^-6 the steps are 2^-9.
    bits = x.to(tl.int32, bitcast=True)
    bits = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000
    tiny = (x + 24576.0) - 24576.0
    return tl.where(tl.abs(x) < 0.015625, tiny, bits.to(tl.float32, bitcast=True))


def kv_write(
    qkv: Tensor,
    positions: Tensor,
    slots: Tensor,
    rotation: tuple[Tensor, Tensor],
    pool: KvPool,
    norms: HeadNorms | None = None,
) -> Tensor:
    """Normed and rotated q, ``[T, heads, head_dim]`` in the type of ``qkv``; K and V go to ``pool`` at ``slots``.

    qkv: ``[T, heads + 2 * kv_heads, head_dim]`` of fp32, fp16 or bf16, contiguous, in the order Q, K, V. positions:
    int32 or int64 ``[T]``. slots: int64 ``[T]``, ``block * block_size + offset``; a negative one writes no K and V, for
    rows that pad a captured graph. rotation: ``(cos, sin)``, fp32 ``[positions, head_dim / 2]`` as
    ``RotaryTable.tables`` gives them. int8 and fp8 are rounded after a division by their head's scale, its largest
    magnitude over 127 or 448.
    Raises ``ValueError`` for shapes that do not belong together and for a pool that lacks or does not need scales.
    """
    tokens, rows, head_dim = qkv.shape
    kv_heads = pool.values.shape[3]
    _check(qkv, rotation, pool)
    q_out = qkv.new_empty(tokens, rows - 2 * kv_heads, head_dim)
    if tokens:
        limit = LIMITS.get(pool.values.dtype, 0.0)
        kv_write_kernel[(tokens, triton.cdiv(rows, _HEADS))](
            qkv,
            positions,
            slots,
            *rotation,
            norms.q if norms else None,
            norms.k if norms else None,
            q_out,
            pool.values,
            pool.scales,
            rows - 2 * kv_heads,
            kv_heads,
            norms.eps if norms else 0.0,
            HEAD_DIM=head_dim,
            HALF=triton.next_power_of_2(head_dim // 2),
            HEADS=_HEADS,
            HAS_NORM=norms is not None,
            LIMIT=limit,
            ROUND=pool.values.dtype == torch.int8,
            num_warps=_warps(head_dim),
        )
    return q_out


def _check(qkv: Tensor, rotation: tuple[Tensor, Tensor], pool: KvPool) -> None:
    _, rows, head_dim = qkv.shape
    blocks, block_size, two, kv_heads, pool_dim = pool.values.shape
    if two != 2 or pool_dim != head_dim or rows <= 2 * kv_heads or head_dim % 2 or not qkv.is_contiguous():
        raise ValueError(f"heads {tuple(qkv.shape)} do not fit a pool of {tuple(pool.values.shape)}")
    if any(table.shape[1] != head_dim // 2 for table in rotation):
        raise ValueError(f"expected rotations of {head_dim // 2} angles, found {rotation[0].shape[1]}")
    wanted = (blocks, block_size, 2, kv_heads) if pool.values.dtype in LIMITS else None
    found = None if pool.scales is None else tuple(pool.scales.shape)
    if wanted != found:
        raise ValueError(f"a pool of {pool.values.dtype} has scales of {wanted}, found {found}")


def kv_write_reference(
    qkv: Tensor,
    positions: Tensor,
    slots: Tensor,
    rotation: tuple[Tensor, Tensor],
    pool: KvPool,
    norms: HeadNorms | None = None,
) -> Tensor:
    """What ``kv_write`` does, in PyTorch."""
    kv_heads = pool.values.shape[3]
    heads = qkv.shape[1] - 2 * kv_heads
    q, k, v = qkv[:, :heads].float(), qkv[:, heads:-kv_heads].float(), qkv[:, -kv_heads:].float()
    if norms is not None:
        q, k = _normed(q, norms.q, norms.eps), _normed(k, norms.k, norms.eps)
    cos, sin = (table[positions].unsqueeze(1) for table in rotation)
    q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
    kept = slots >= 0
    kv = torch.stack((k, v), dim=1)[kept]
    if pool.scales is not None:
        limit = LIMITS[pool.values.dtype]
        scales = kv.abs().amax(dim=-1) / limit
        pool.scales.view(-1, *scales.shape[1:])[slots[kept]] = scales
        kv = (kv / scales.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(-1)).clamp(-limit, limit)
        kv = kv.round() if pool.values.dtype == torch.int8 else kv
    pool.values.view(-1, *kv.shape[1:])[slots[kept]] = kv.to(pool.values.dtype)
    return q.to(qkv.dtype)


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight.float()


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def _warps(head_dim: int) -> int:
    return 4 if head_dim > 64 else 2


def configurations() -> tuple[Configuration, ...]:
    """Llama 3.1 8B with each type of pool, SmolLM2's head of 64, Qwen 3's normed heads and Gemma 3's of 256."""
    return (
        _configuration("bf16 128", "bf16", 128),
        _configuration("int8 128", "i8", 128, limit=127.0),
        _configuration("fp8 128", "fp8e4nv", 128, limit=448.0, oldest=89),
        _configuration("bf16 64", "bf16", 64),
        _configuration("bf16 128 normed", "bf16", 128, normed=True),
        _configuration("bf16 256 normed", "bf16", 256, normed=True),
    )


def _configuration(
    name: str, pool: str, head_dim: int, *, limit: float = 0.0, normed: bool = False, oldest: int = 80
) -> Configuration:
    signature = {"qkv": "*bf16", "positions": "*i64", "slots": "*i64", "cos": "*fp32", "sin": "*fp32"}
    signature |= {"q_out": "*bf16", "values": f"*{pool}", "num_heads": "i32", "num_kv_heads": "i32", "eps": "fp32"}
    constants: dict[str, Any] = {"HEAD_DIM": head_dim, "HALF": head_dim // 2, "HEADS": _HEADS, "HAS_NORM": normed}
    constants |= {"LIMIT": limit, "ROUND": pool == "i8"}
    for argument, used in (("q_norm", normed), ("k_norm", normed), ("scales", limit > 0)):
        if used:
            signature[argument] = "*fp32"
        else:
            constants[argument] = None
    return Configuration(
        name=f"kv_write {name}",
        kernel=kv_write_kernel,
        signature=signature,
        constants=constants,
        num_warps=_warps(head_dim),
        oldest=oldest,
    )
