"""RMSNorm (Zhang & Sennrich, arXiv:1910.07467), with the addition to the residual stream before it.

One program a row, which it holds in registers: the stream is read once and written once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.configuration import Configuration

LONGEST_ROW = 32768


@triton.jit
def rms_norm_kernel(
    stream,
    delta,
    weight,
    out,
    width,
    eps,
    HAS_DELTA: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    x = tl.load(stream + row + columns, mask=inside, other=0.0).to(tl.float32)
    if HAS_DELTA:
        x += tl.load(delta + row + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(stream + row + columns, x.to(stream.dtype.element_ty), mask=inside)
        # What is normed is what the next layer will read of the stream.
        x = x.to(stream.dtype.element_ty).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x, axis=0) / width + eps)
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + columns, (x * inverse * scale).to(out.dtype.element_ty), mask=inside)


def add_rms_norm(
    stream: Tensor, delta: Tensor | None, weight: Tensor, eps: float, *, dtype: torch.dtype | None = None
) -> Tensor:
    """``norm(stream + delta) * weight`` as ``[T, n]`` of ``dtype`` (None: the stream's); adds ``delta`` to the stream.

    stream: ``[T, n]`` of fp32, fp16 or bf16, contiguous, changed in place where there is a ``delta``. delta:
    ``[T, n]`` of any of these types, contiguous, or None. weight: ``[n]``, with a norm's offset already added.
    Raises ``ValueError`` for other shapes and for rows over ``LONGEST_ROW``.
    """
    if stream.ndim != 2 or weight.shape != stream.shape[1:] or (delta is not None and delta.shape != stream.shape):
        shapes = [tuple(t.shape) for t in (stream, delta, weight) if t is not None]
        raise ValueError(f"expected a stream [T, n], a delta of the same shape and weights [n], found {shapes}")
    if not stream.is_contiguous() or not (delta is None or delta.is_contiguous()):
        raise ValueError("the stream and the delta must be contiguous")
    rows, width = stream.shape
    if width > LONGEST_ROW:
        raise ValueError(f"a row of {width} values does not fit in registers; the longest is {LONGEST_ROW}")
    out = torch.empty_like(stream, dtype=dtype or stream.dtype)
    if rows:
        block = triton.next_power_of_2(width)
        rms_norm_kernel[(rows,)](
            stream, delta, weight, out, width, eps, HAS_DELTA=delta is not None, BLOCK=block, num_warps=_warps(block)
        )
    return out


def add_rms_norm_reference(
    stream: Tensor, delta: Tensor | None, weight: Tensor, eps: float, *, dtype: torch.dtype | None = None
) -> Tensor:
    """What ``add_rms_norm`` does, in PyTorch."""
    if delta is not None:
        stream.copy_(stream.float() + delta.float())
    x = stream.float()
    normed = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight.float()
    return normed.to(dtype or stream.dtype)


def _warps(block: int) -> int:
    """Eight values a thread, so that a row of 4096 is one load of 16 bytes from each of 512 threads."""
    return min(16, max(1, block // 256))


def configurations() -> tuple[Configuration, ...]:
    """The widths of SmolLM2 and of an 8B and a 70B Llama, with the fp32 stream and the bf16 weights' products.

    Gemma 3 4B norms what a product gave, for the stream.
    """
    widths = (_configuration(str(width), width, "fp32", "bf16", delta="bf16") for width in (576, 4096, 8192))
    return (*widths, _configuration("2560 of a product", 2560, "bf16", "fp32"))


def _configuration(name: str, width: int, stream: str, out: str, *, delta: str | None = None) -> Configuration:
    block = triton.next_power_of_2(width)
    signature = {"stream": f"*{stream}", "weight": "*fp32", "out": f"*{out}"}
    constants: dict[str, Any] = {"HAS_DELTA": delta is not None, "BLOCK": block}
    if delta is None:
        constants["delta"] = None
    else:
        signature["delta"] = f"*{delta}"
    return Configuration(
        name=f"add_rms_norm {name}",
        kernel=rms_norm_kernel,
        signature=signature | {"width": "i32", "eps": "fp32"},
        constants=constants,
        multiples_of_16=("width",),
        num_warps=_warps(block),
    )
