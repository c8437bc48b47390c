"""The parts that families compose their layers from, on any backend.

The residual stream, the norms and the rotation stay in fp32 also for bf16 weights: rounding the stream after each of
60 additions moved greedy answers away from fp32's. Products and K and V are in the backend's type.

A block does not add its output to the stream itself: it returns it, and the next norm adds it (``delta``), so that the
stream is read and written once for both.

Of a model that several ranks run, each holds its heads and its rows of the MLPs, and their outputs are summed over the
ranks (``parallel.shard``). What ``config`` says is the whole model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gpuruntime.kernels.backend import Attend, Backend, HeadNorms, Product
from gpuruntime.loading.weights import Part, WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.parallel.group import Alone, Group


@dataclass(frozen=True, slots=True)
class Build:
    """What a model is built from: its shape, its weights, what multiplies them, and the ranks that share them."""

    config: ModelConfig
    weights: WeightSource
    backend: Backend
    group: Group = field(default_factory=Alone)


class Layer(Protocol):
    """One block of a decoder. ``nbytes``: what its weights hold in memory."""

    nbytes: int

    def forward(self, stream: Tensor, delta: Tensor | None, attend: Attend) -> Tensor:
        """The block's last output ``[T, hidden]``, which the caller adds to the stream ``[T, hidden]``.

        stream: fp32, changed in place: ``delta``, what the block before returned, and all but the last output of this
        one are added to it.
        """
        ...


class Mlp(Protocol):
    """``[T, hidden]`` to ``[T, hidden]``."""

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor: ...


class RmsNorm:
    """RMSNorm (Zhang & Sennrich, arXiv:1910.07467) of the last axis, in fp32; what it returns is of ``dtype``.

    None: the backend's, for what goes into a product.
    """

    def __init__(self, build: Build, name: str, *, dtype: torch.dtype | None = None) -> None:
        config = build.config
        self._backend = build.backend
        self._dtype = dtype or build.backend.dtype
        self._eps = config.rms_norm_eps
        self._weight = build.weights.get(f"{name}.weight", (config.hidden_size,)).float() + config.norm_offset

    def __call__(self, stream: Tensor, delta: Tensor | None = None) -> Tensor:
        """Of ``stream + delta``, which becomes the stream."""
        return self._backend.add_rms_norm(stream, delta, self._weight, self._eps, self._dtype)


def head_norms(build: Build, prefix: str) -> HeadNorms:
    config = build.config
    q, k = (build.weights.get(f"{prefix}.{name}.weight", (config.head_dim,)).float() for name in ("q_norm", "k_norm"))
    return HeadNorms(q + config.norm_offset, k + config.norm_offset, config.rms_norm_eps)


class Attention:
    """Grouped-query attention (Ainslie et al., arXiv:2305.13245) between one fused product and another."""

    def __init__(self, build: Build, prefix: str, norms: HeadNorms | None = None) -> None:
        config = build.config
        self._head_dim = config.head_dim
        self._norms = norms
        self._sum = build.group.sum
        hidden = config.hidden_size
        kv = Rows(config.kv_size, build.group.shard.kv_copies(config.num_kv_heads))
        qkv = {"q_proj": Rows(config.q_size), "k_proj": kv, "v_proj": kv}
        self._qkv = rows_linear(build, prefix, qkv, hidden, bias=config.attention_bias)
        self._out = columns_linear(build, f"{prefix}.o_proj", hidden, config.q_size, bias=config.output_bias)
        self.nbytes = self._qkv.nbytes + self._out.nbytes

    def __call__(self, x: Tensor, attend: Attend) -> Tensor:
        """``[T, hidden]`` of normed ``x [T, hidden]``."""
        heads = self._qkv(x).view(x.shape[0], -1, self._head_dim)
        return self._sum(self._out(attend(heads, self._norms)))


class GatedMlp:
    """``down(activation(gate(x)) * up(x))`` (Shazeer, arXiv:2002.05202) with ``width`` rows between.

    Without ``summed`` it returns this rank's share, which the caller adds to the others'.
    """

    def __init__(self, build: Build, prefix: str, width: int, *, summed: bool = True) -> None:
        config = build.config
        self._backend = build.backend
        self._activation = config.activation
        self._sum = build.group.sum if summed else Alone.sum
        parts = {"gate_proj": Rows(width), "up_proj": Rows(width)}
        self._gate_up = rows_linear(build, prefix, parts, config.hidden_size, bias=config.mlp_bias)
        self._down = columns_linear(build, f"{prefix}.down_proj", config.hidden_size, width, bias=config.mlp_bias)
        self.nbytes = self._gate_up.nbytes + self._down.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return self._sum(self._down(self._backend.gated_activation(self._gate_up(x), self._activation)))


class PreNormLayer:
    """Attention, then an MLP, each behind its norm and added to the stream: the block of Llama and its heirs."""

    def __init__(self, attention_norm: RmsNorm, attention: Attention, mlp_norm: RmsNorm, mlp: Mlp) -> None:
        self._attention_norm = attention_norm
        self._attention = attention
        self._mlp_norm = mlp_norm
        self._mlp = mlp
        self.nbytes = attention.nbytes + mlp.nbytes

    def forward(self, stream: Tensor, delta: Tensor | None, attend: Attend) -> Tensor:
        delta = self._attention(self._attention_norm(stream, delta), attend)
        return self._mlp(self._mlp_norm(stream, delta))


class Rows(NamedTuple):
    """How many rows a projection has as a whole, and how many neighbouring ranks hold the same of them."""

    total: int
    copies: int = 1


def rows_linear(build: Build, prefix: str, parts: Mapping[str, Rows], in_size: int, *, bias: bool) -> Product:
    """Stacks this rank's rows of the named projections of ``prefix`` into one product over the same input."""
    weights, shard = build.weights, build.group.shard
    own = {name: shard.part(rows.total, copies=rows.copies) for name, rows in parts.items()}
    matrices = {f"{prefix}.{name}.weight": Part((rows.total, in_size), own[name]) for name, rows in parts.items()}
    biases = {f"{prefix}.{name}.bias": Part((rows.total,), own[name]) for name, rows in parts.items()} if bias else {}
    return build.backend.linear(weights.stack(matrices), weights.stack(biases) if biases else None)


def columns_linear(build: Build, name: str, out_size: int, in_size: int, *, bias: bool) -> Product:
    """A product with this rank's columns of ``name``: a share of the sum over the ranks."""
    shard = build.group.shard
    weight = build.weights.get(f"{name}.weight", (out_size, in_size), columns=shard.part(in_size))
    # In the sum the bias may count once only.
    added = bias and shard.rank == 0
    return build.backend.linear(weight, build.weights.get(f"{name}.bias", (out_size,)) if added else None)
