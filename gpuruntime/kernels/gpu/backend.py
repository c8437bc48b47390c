"""The layers' operations in Triton; products of unquantized weights are the library's (cuBLAS)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

from gpuruntime.kernels.backend import Activation, Product
from gpuruntime.kernels.gpu.activation import gated_activation
from gpuruntime.kernels.gpu.norm import add_rms_norm
from gpuruntime.kernels.gpu.quantized_linear import quantize_rows_fp8, quantized_linear
from gpuruntime.kernels.quantize import quantize_rows

Weights = Literal["plain", "int8", "fp8"]


class TritonBackend:
    """Implements ``kernels.backend.Backend``.

    dtype: of products and of K and V; bf16 or fp16 needs a GPU, for the interpreter cannot compute in bf16. weights:
    "plain" keeps them in ``dtype``.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, weights: Weights = "plain") -> None:
        self.dtype = dtype
        self.device = device
        self._weights = weights

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Product:
        if self._weights == "plain":
            return PlainProduct(weight, bias)
        return QuantizedProduct(weight, bias, self._weights, self.dtype)

    def head(self, weight: Tensor, *, tied: bool) -> Product:
        if self._weights == "plain":
            return PlainHead(weight, tied=tied)
        return QuantizedProduct(weight, None, self._weights, torch.float32, x_dtype=self.dtype)

    @staticmethod
    def add_rms_norm(stream: Tensor, delta: Tensor | None, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        return add_rms_norm(stream, delta, weight, eps, dtype=dtype)

    @staticmethod
    def gated_activation(gate_up: Tensor, activation: Activation) -> Tensor:
        return gated_activation(gate_up, activation)


class PlainProduct:
    """Weights in the type of what they are multiplied with."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self.nbytes = weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self._weight, self._bias)


class PlainHead:
    """Logits that are never rounded below fp32: near ones would become equal, and the lower id would win."""

    def __init__(self, weight: Tensor, *, tied: bool) -> None:
        self._weight = weight
        self.nbytes = 0 if tied else weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        if self._weight.dtype == torch.float32:
            return linear(x, self._weight)
        return torch.mm(x.to(self._weight.dtype), self._weight.T, out_dtype=torch.float32)


class QuantizedProduct:
    """int8 or fp8 rows with a scale each; ``dtype``: of what it returns, ``x_dtype``: what it multiplies with."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        weights: Literal["int8", "fp8"],
        dtype: torch.dtype,
        *,
        x_dtype: torch.dtype | None = None,
    ) -> None:
        self._weight = quantize_rows(weight) if weights == "int8" else quantize_rows_fp8(weight)
        self._bias, self._dtype, self._x_dtype = bias, dtype, x_dtype or dtype
        self.nbytes = self._weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return quantized_linear(x.to(self._x_dtype), self._weight, self._bias, dtype=self._dtype)
