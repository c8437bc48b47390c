"""Products with int8 or fp8 weights and unquantized activations, for decode: what costs is to read the weights once.

The tile of weights stands on the left, ``[rows, depth] x [depth, tokens]``: tensor cores want 64 rows there, which
weights always fill and a decode's few tokens do not, and the few tokens become the right side's small width. Both
weight types become the activations' type without a rounding; a row's scale multiplies its sum.

The depth is shared between programs where there are few rows. How is decided by the weight's shape alone and the
shares are added in order, so that a token's result depends on nothing else in its batch.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.configuration import Configuration
from gpuruntime.kernels.gpu.interpreting import is_interpreted
from gpuruntime.kernels.quantize import QuantizedWeight

_ROWS = 64
_DEPTH = 128
_TOKENS = (16, 32, 64)
_PROGRAMS = 512  # about four for each multiprocessor of a large GPU
_LEAST_SHARE = 4  # steps of depth; below that a share costs more to add than it saves
_STAGES = 4
_FP8_LIMIT = 448.0
_TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


@triton.jit
def quantized_linear_kernel(
    x,
    values,
    scales,
    bias,
    out,
    partial,
    tokens,
    rows,
    depth,
    depth_share,
    HAS_BIAS: tl.constexpr,
    SHARES: tl.constexpr,
    EVEN: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    TOKENS: tl.constexpr,
    DOT_DTYPE: tl.constexpr,
):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    begin = tl.program_id(2) * depth_share
    end = tl.minimum(begin + depth_share, depth)
    steps = tl.arange(0, DEPTH)
    # Rows and tokens past the end read the last ones, which no mask slows, and are not stored.
    weights = values + tl.minimum(row, rows - 1).to(tl.int64)[:, None] * depth + steps[None, :]
    inputs = x + tl.minimum(token, tokens - 1).to(tl.int64)[None, :] * depth + steps[:, None]
    total = tl.zeros([ROWS, TOKENS], tl.float32)
    for start in range(begin, end, DEPTH):
        if EVEN:
            left = tl.load(weights + start)
            right = tl.load(inputs + start)
        else:
            inside = start + steps < end
            left = tl.load(weights + start, mask=inside[None, :], other=0.0)
            right = tl.load(inputs + start, mask=inside[:, None], other=0.0)
        total = tl.dot(left.to(DOT_DTYPE), right.to(DOT_DTYPE), total, input_precision="ieee")
    stored = (row < rows)[:, None] & (token < tokens)[None, :]
    place = token.to(tl.int64)[None, :] * rows + row[:, None]
    if SHARES == 1:
        total *= tl.load(scales + row, mask=row < rows, other=0.0)[:, None]
        if HAS_BIAS:
            total += tl.load(bias + row, mask=row < rows, other=0.0).to(tl.float32)[:, None]
        tl.store(out + place, total.to(out.dtype.element_ty), mask=stored)
    else:
        share = tl.program_id(2).to(tl.int64) * tokens * rows
        tl.store(partial + share + place, total, mask=stored)


@triton.jit
def add_shares_kernel(
    partial, scales, bias, out, tokens, rows, HAS_BIAS: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    total = tl.zeros([BLOCK], tl.float32)
    for share in tl.static_range(SHARES):
        total += tl.load(partial + (share * tokens + token) * rows + row, mask=inside, other=0.0)
    total *= tl.load(scales + row, mask=inside, other=0.0)
    if HAS_BIAS:
        total += tl.load(bias + row, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token * rows + row, total.to(out.dtype.element_ty), mask=inside)


def quantized_linear(
    x: Tensor, weight: QuantizedWeight, bias: Tensor | None = None, *, dtype: torch.dtype | None = None
) -> Tensor:
    """``x W^T + b`` as ``[T, N]`` of ``dtype`` (None: x's) for contiguous ``x [T, K]`` of fp32, fp16 or bf16.

    weight: int8 or fp8 (e4m3) values ``[N, K]``, contiguous, and fp32 scales ``[N]``. bias: ``[N]`` or None. Sums are
    in fp32. Made for up to 64 tokens; more read the weights once for each 64. Raises ``ValueError`` for other shapes
    and types.
    """
    values = weight.values
    if values.dtype not in (torch.int8, torch.float8_e4m3fn) or x.dtype not in _TYPES:
        raise ValueError(f"no product of {x.dtype} with weights of {values.dtype}")
    if x.ndim != 2 or x.shape[1:] != values.shape[1:] or not x.is_contiguous() or not values.is_contiguous():
        raise ValueError(f"x {tuple(x.shape)} does not fit weights {tuple(values.shape)}; both must be contiguous")
    (tokens, depth), rows = x.shape, values.shape[0]
    out = x.new_empty(tokens, rows, dtype=dtype or x.dtype)
    if not tokens:
        return out
    shares, depth_share = _shares(rows, depth)
    partial = x.new_empty(shares, tokens, rows, dtype=torch.float32) if shares > 1 else None
    width = next((each for each in _TOKENS if tokens <= each), _TOKENS[-1])
    quantized_linear_kernel[(triton.cdiv(tokens, width), triton.cdiv(rows, _ROWS), shares)](
        x,
        values,
        weight.scales,
        bias,
        out,
        partial,
        tokens,
        rows,
        depth,
        depth_share,
        HAS_BIAS=bias is not None,
        SHARES=shares,
        EVEN=depth % _DEPTH == 0,
        ROWS=_ROWS,
        DEPTH=_DEPTH,
        TOKENS=width,
        DOT_DTYPE=tl.float32 if is_interpreted() else _TYPES[x.dtype],
        num_warps=4,
        num_stages=_STAGES,
    )
    if partial is not None:
        add_shares_kernel[(tokens, triton.cdiv(rows, 1024))](
            partial, weight.scales, bias, out, tokens, rows, HAS_BIAS=bias is not None, SHARES=shares, BLOCK=1024
        )
    return out


def quantized_linear_reference(
    x: Tensor, weight: QuantizedWeight, bias: Tensor | None = None, *, dtype: torch.dtype | None = None
) -> Tensor:
    """What ``quantized_linear`` does, in PyTorch."""
    total = (x.float() @ weight.values.float().T) * weight.scales
    return (total if bias is None else total + bias.float()).to(dtype or x.dtype)


def quantize_rows_fp8(weight: Tensor) -> QuantizedWeight:
    """Rounds ``weight [N, K]`` row by row to fp8 (e4m3), its largest magnitude at 448; a row of zeros has the scale 0.

    Raises ``ValueError`` for values that are not finite.
    """
    scales = weight.float().abs().amax(dim=1) / _FP8_LIMIT
    if not bool(torch.isfinite(scales).all()):
        raise ValueError("weights that are not finite cannot be quantized")
    steps = scales.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)
    values = (weight.float() / steps).clamp_(-_FP8_LIMIT, _FP8_LIMIT)
    return QuantizedWeight(values.to(torch.float8_e4m3fn), scales)


def _shares(rows: int, depth: int) -> tuple[int, int]:
    """Into how many shares the depth falls, and how much of it is in each."""
    steps = triton.cdiv(depth, _DEPTH)
    wanted = triton.cdiv(_PROGRAMS, triton.cdiv(rows, _ROWS))
    shares = max(1, min(wanted, steps // _LEAST_SHARE, 16))
    length = triton.cdiv(steps, shares)
    return triton.cdiv(steps, length), length * _DEPTH


def configurations() -> tuple[Configuration, ...]:
    """An 8B Llama's products at decode batches of up to 16 and of up to 64."""
    products = tuple(
        _configuration(weight, rows, depth, tokens)
        for weight in ("i8", "fp8e4nv")
        for rows, depth in ((4096, 4096), (28672, 4096))
        for tokens in (16, 64)
    )
    signature = {"partial": "*fp32", "scales": "*fp32", "out": "*bf16", "tokens": "i32", "rows": "i32"}
    constants: dict[str, Any] = {"bias": None, "HAS_BIAS": False, "SHARES": _shares(4096, 4096)[0], "BLOCK": 1024}
    return (*products, Configuration("add_shares", add_shares_kernel, signature, constants, ("rows",)))


def _configuration(weight: str, rows: int, depth: int, tokens: int) -> Configuration:
    shares, _ = _shares(rows, depth)
    signature = {"x": "*bf16", "values": f"*{weight}", "scales": "*fp32", "out": "*bf16"}
    signature |= dict.fromkeys(("tokens", "rows", "depth", "depth_share"), "i32")
    constants: dict[str, Any] = {"bias": None, "HAS_BIAS": False, "SHARES": shares, "EVEN": True}
    constants |= {"ROWS": _ROWS, "DEPTH": _DEPTH, "TOKENS": tokens, "DOT_DTYPE": tl.bfloat16}
    if shares > 1:
        signature["partial"] = "*fp32"
    else:
        constants["partial"] = None
    return Configuration(
        name=f"quantized_linear {'int8' if weight == 'i8' else 'fp8'} {rows} x {depth}, {tokens} tokens",
        kernel=quantized_linear_kernel,
        signature=signature,
        constants=constants,
        multiples_of_16=("rows", "depth", "depth_share"),
        num_warps=4,
        num_stages=_STAGES,
        dot=True,
        oldest=80 if weight == "i8" else 89,
    )
