"""The parts that families compose their layers from.

The residual stream, the norms and the rotation stay in fp32 also for bf16 weights: rounding the stream after each of
60 additions moved greedy answers away from fp32's. Products and K and V are in the weights' type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, cat
from torch.nn.functional import gelu, rms_norm, silu

from gpuruntime.kernels.kv_memory import LayerKv
from gpuruntime.kernels.linear import Linear
from gpuruntime.kernels.paged_attention import AttentionPlan, paged_attention
from gpuruntime.kernels.sink_attention import SinkQueries, sink_attention
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import rotate


def _gelu_tanh(x: Tensor) -> Tensor:
    return gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "gelu_tanh": _gelu_tanh}
Rotation = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What one layer reads besides the stream.

    rotation: cosines and sines ``[T, 1, head_dim]`` at the tokens' positions. slots: int64 ``[T]``, where K and V go.
    sink_rotation: the queries' rotation towards attention sinks, where the plan's view has any.
    """

    rotation: Rotation
    slots: Tensor
    attention: AttentionPlan
    sink_rotation: Rotation | None = None


class Layer(Protocol):
    """One block of a decoder. ``nbytes``: what its weights hold in memory."""

    nbytes: int

    def forward(self, x: Tensor, kv: LayerKv, inputs: LayerInputs) -> None:
        """Adds the block's output to the stream ``x [T, hidden]`` (fp32, in place) and writes K and V to ``kv``."""
        ...


class Mlp(Protocol):
    """``[T, hidden]`` to ``[T, hidden]``, any float type in, fp32 out."""

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor: ...


class RmsNorm:
    """RMSNorm (Zhang & Sennrich, arXiv:1910.07467) of the last axis; fp32 in and out."""

    def __init__(self, config: ModelConfig, weights: WeightSource, name: str) -> None:
        self._size = (config.hidden_size,)
        self._eps = config.rms_norm_eps
        self._weight = weights.get(f"{name}.weight", self._size).float() + config.norm_offset

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self._size, self._weight, self._eps)


class HeadNorm:
    """RMSNorm of each head of q and k, ``[T, heads + kv_heads, head_dim]``, before rotation; fp32 out."""

    def __init__(self, config: ModelConfig, weights: WeightSource, prefix: str) -> None:
        self._size = (config.head_dim,)
        self._eps = config.rms_norm_eps
        q, k = (weights.get(f"{prefix}.{name}.weight", self._size).float() for name in ("q_norm", "k_norm"))
        stacked = cat((q.expand(config.num_heads, -1), k.expand(config.num_kv_heads, -1)))
        self._weight = stacked + config.norm_offset

    def __call__(self, heads: Tensor) -> Tensor:
        return rms_norm(heads.float(), self._size, None, self._eps) * self._weight


class Attention:
    """Grouped-query attention (Ainslie et al., arXiv:2305.13245): one fused product, rotation, KV write, attention."""

    def __init__(
        self, config: ModelConfig, weights: WeightSource, prefix: str, head_norm: HeadNorm | None = None
    ) -> None:
        self._config = config
        self._dtype = weights.dtype
        self._head_norm = head_norm
        hidden = config.hidden_size
        qkv = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
        self._qkv = fused_linear(weights, prefix, qkv, hidden, bias=config.attention_bias)
        self._out = fused_linear(weights, prefix, {"o_proj": hidden}, config.q_size, bias=config.output_bias)
        self.nbytes = self._qkv.nbytes + self._out.nbytes

    def __call__(self, x: Tensor, kv: LayerKv, inputs: LayerInputs) -> Tensor:
        """fp32 ``[T, hidden]`` of normed ``x [T, hidden]``."""
        config = self._config
        heads = self._qkv(x.to(self._dtype)).view(x.shape[0], -1, config.head_dim)
        qk = heads[:, : config.num_heads + config.num_kv_heads]
        if self._head_norm is not None:
            qk = self._head_norm(qk)
        rotated = rotate(qk, *inputs.rotation)
        far = None
        if inputs.sink_rotation is not None:
            far = rotate(qk[:, : config.num_heads], *inputs.sink_rotation).to(self._dtype)
        heads[:, : config.num_heads + config.num_kv_heads] = rotated
        kv.write(inputs.slots, heads[:, config.num_heads :])
        q = heads[:, : config.num_heads]
        if far is None:
            mixed = paged_attention(q, kv, inputs.attention, config.attention_scale)
        else:
            mixed = sink_attention(SinkQueries(q, far), kv, inputs.attention, config.attention_scale)
        return self._out(mixed).float()


class GatedMlp:
    """``down(activation(gate(x)) * up(x))`` (Shazeer, arXiv:2002.05202) with ``width`` rows between."""

    def __init__(self, config: ModelConfig, weights: WeightSource, prefix: str, width: int) -> None:
        self._dtype = weights.dtype
        self._activation = ACTIVATIONS[config.activation]
        parts = {"gate_proj": width, "up_proj": width}
        self._gate_up = fused_linear(weights, prefix, parts, config.hidden_size, bias=config.mlp_bias)
        self._down = fused_linear(weights, prefix, {"down_proj": config.hidden_size}, width, bias=config.mlp_bias)
        self.nbytes = self._gate_up.nbytes + self._down.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self._gate_up(x.to(self._dtype)).chunk(2, dim=-1)
        return self._down(self._activation(gate).mul_(up)).float()


class PreNormLayer:
    """Attention, then an MLP, each behind its norm and added to the stream: the block of Llama and its heirs."""

    def __init__(self, attention_norm: RmsNorm, attention: Attention, mlp_norm: RmsNorm, mlp: Mlp) -> None:
        self._attention_norm = attention_norm
        self._attention = attention
        self._mlp_norm = mlp_norm
        self._mlp = mlp
        self.nbytes = attention.nbytes + mlp.nbytes

    def forward(self, x: Tensor, kv: LayerKv, inputs: LayerInputs) -> None:
        x += self._attention(self._attention_norm(x), kv, inputs)
        x += self._mlp(self._mlp_norm(x))


def fused_linear(weights: WeightSource, prefix: str, parts: dict[str, int], in_size: int, *, bias: bool) -> Linear:
    """Stacks the named projections (name -> rows) of ``prefix`` into one product over the same input."""
    weight = weights.stack({f"{prefix}.{name}.weight": (rows, in_size) for name, rows in parts.items()})
    biases = {f"{prefix}.{name}.bias": (rows,) for name, rows in parts.items()} if bias else {}
    return Linear(weight, weights.stack(biases) if biases else None, int8=weights.int8)
