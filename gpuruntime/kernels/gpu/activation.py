"""The gated activations between the two halves of an MLP (Shazeer, arXiv:2002.05202): SiLU and GELU, times ``up``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import gelu, silu

from gpuruntime.kernels.backend import Activation
from gpuruntime.kernels.gpu.configuration import Configuration

_BLOCK = 1024


@triton.jit
def gated_activation_kernel(gate_up, out, width, GELU: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    source = gate_up + row * 2 * width + columns
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + width, mask=inside, other=0.0).to(tl.float32)
    if GELU:
        # gate * (1 + tanh(u)) / 2 is gate * sigmoid(2u): no tanh is needed, and nothing overflows to NaN.
        inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        active = gate / (1.0 + tl.exp(-2.0 * inner))
    else:
        active = gate / (1.0 + tl.exp(-gate))
    tl.store(out + row * width + columns, (active * up).to(out.dtype.element_ty), mask=inside)


def gated_activation(gate_up: Tensor, activation: Activation) -> Tensor:
    """``activation(gate) * up`` as ``[T, n]`` for contiguous ``gate_up [T, 2 n]``, gate first; fp32, fp16 or bf16.

    ``gelu_tanh`` is GELU's tanh approximation. Computes in fp32. Raises ``ValueError`` for other shapes.
    """
    if gate_up.ndim != 2 or gate_up.shape[1] % 2 or not gate_up.is_contiguous():
        raise ValueError(f"expected contiguous gate and up, [T, 2 n], found {tuple(gate_up.shape)}")
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty(rows, width)
    if out.numel():
        grid = (rows, triton.cdiv(width, _BLOCK))
        gated_activation_kernel[grid](gate_up, out, width, GELU=activation == "gelu_tanh", BLOCK=_BLOCK)
    return out


def gated_activation_reference(gate_up: Tensor, activation: Activation) -> Tensor:
    """What ``gated_activation`` does, in PyTorch."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    active = silu(gate) if activation == "silu" else gelu(gate, approximate="tanh")
    return torch.mul(active, up).to(gate_up.dtype)


def configurations() -> tuple[Configuration, ...]:
    """Both activations of bf16 products."""
    return tuple(
        Configuration(
            name=f"gated_activation {name}",
            kernel=gated_activation_kernel,
            signature={"gate_up": "*bf16", "out": "*bf16", "width": "i32"},
            constants={"GELU": name == "gelu_tanh", "BLOCK": _BLOCK},
            multiples_of_16=("width",),
        )
        for name in ("silu", "gelu_tanh")
    )
