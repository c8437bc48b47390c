"""What multiplies, norms and attends under a model: one interface, implemented in PyTorch and in Triton.

The models are written once against it. ``kernels.torch_backend`` runs anywhere, ``kernels.gpu.backend`` in Triton on a
GPU or in its interpreter. The C++ step needs none of it: it computes a whole model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMSNorm of each head of q and of k before rotation: fp32 weights ``[head_dim]``, offsets already added."""

    q: Tensor
    k: Tensor
    eps: float


class Product(Protocol):
    """``y = x W^T + b``. ``nbytes``: what its weights hold in memory."""

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor:
        """``[T, out]`` of contiguous ``x [T, in]`` in the backend's type."""
        ...


class Backend(Protocol):
    """The operations of a layer, on one device, with weights in one format."""

    @property
    def dtype(self) -> torch.dtype:
        """Of what products take and return; weights may be kept in fewer bits."""
        ...

    @property
    def device(self) -> torch.device: ...

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Product:
        """A product with ``weight [out, in]`` and ``bias [out]`` in the weights' format."""
        ...

    def head(self, weight: Tensor, *, tied: bool) -> Product:
        """Logits of ``weight [vocab, hidden]``: fp32 in and out. Where ``tied``, ``nbytes`` leaves out ``weight``."""
        ...

    def add_rms_norm(
        self, stream: Tensor, delta: Tensor | None, weight: Tensor, eps: float, dtype: torch.dtype
    ) -> Tensor:
        """``norm(stream + delta) * weight`` as ``[T, n]`` of ``dtype``; adds ``delta`` to the stream, in place."""
        ...

    def gated_activation(self, gate_up: Tensor, activation: Activation) -> Tensor:
        """``activation(gate) * up`` as ``[T, n]`` of ``[T, 2 n]``, gate first; may overwrite its input."""
        ...


class Attend(Protocol):
    """One layer's attention in one step: it knows the layer's KV memory, its rotation and who sees whom."""

    def __call__(self, qkv: Tensor, norms: HeadNorms | None) -> Tensor:
        """``[T, heads * head_dim]`` of a fused product ``[T, heads + 2 * kv_heads, head_dim]``: Q, K and V heads.

        Norms and rotates the heads of q and k, writes K and V, and attends. May overwrite ``qkv``.
        """
        ...
