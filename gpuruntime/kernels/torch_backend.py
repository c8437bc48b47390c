"""The layers' operations in PyTorch, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, rms_norm, silu

from gpuruntime.kernels.backend import Activation
from gpuruntime.kernels.linear import Head, Linear


def _gelu_tanh(x: Tensor) -> Tensor:
    return gelu(x, approximate="tanh")


_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"silu": silu, "gelu_tanh": _gelu_tanh}


class TorchBackend:
    """Implements ``kernels.backend.Backend``. ``int8``: weights are kept as int8 rows, and ``dtype`` is bf16."""

    device = torch.device("cpu")

    def __init__(self, dtype: torch.dtype, *, int8: bool = False) -> None:
        self.dtype = dtype
        self._int8 = int8

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return Linear(weight, bias, int8=self._int8)

    def head(self, weight: Tensor, *, tied: bool) -> Head:
        return Head(weight, int8=self._int8, tied=tied)

    @staticmethod
    def add_rms_norm(stream: Tensor, delta: Tensor | None, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        if delta is not None:
            stream += delta
        return rms_norm(stream.float(), weight.shape, weight, eps).to(dtype)

    @staticmethod
    def gated_activation(gate_up: Tensor, activation: Activation) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return _ACTIVATIONS[activation](gate).mul_(up)
