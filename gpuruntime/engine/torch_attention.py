"""Every layer's attention in PyTorch: heads' norms, rotation, the KV write, and attention over the paged K and V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import rms_norm

from gpuruntime.kernels.backend import HeadNorms
from gpuruntime.kernels.kv_memory import LayerKv
from gpuruntime.kernels.paged_attention import AttentionPlan, paged_attention
from gpuruntime.kernels.sink_attention import SinkQueries, cache_positions, sink_attention
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import RotaryTable, rotate

Rotation = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What layers of one rotation and one view read in a step.

    rotation: cosines and sines ``[T, 1, head_dim]`` at the tokens' positions. slots: int64 ``[T]``, where K and V go:
    ``block * block_size + offset``. sink_rotation: the queries' rotation towards attention sinks, where there are any.
    """

    rotation: Rotation
    slots: Tensor
    plan: AttentionPlan
    sink_rotation: Rotation | None = None


class TorchAttention:
    """The KV memory of each layer, for contexts of up to ``max_len`` tokens."""

    def __init__(self, config: ModelConfig, kv: Sequence[LayerKv], max_len: int) -> None:
        self._config = config
        self._kv = kv
        self._tables = {rope: RotaryTable(rope, config.head_dim, max_len) for rope in set(config.layer_ropes)}

    def step(self, positions: Tensor, slots: Tensor, plans: Sequence[AttentionPlan]) -> list[TorchLayerAttention]:
        """One for each layer, for int64 ``positions`` and ``slots``, each ``[T]``, and each layer's plan."""
        made = {}
        keys = list(zip(self._config.layer_ropes, plans, strict=True))
        for rope, plan in keys:
            if (rope, plan.view) not in made:
                table = self._tables[rope]
                toward_sinks = table.at(cache_positions(plan.view, positions)) if plan.view.sinks else None
                made[rope, plan.view] = LayerInputs(table.at(positions), slots, plan, toward_sinks)
        return [
            TorchLayerAttention(self._config, kv, made[rope, plan.view])
            for kv, (rope, plan) in zip(self._kv, keys, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class TorchLayerAttention:
    """Implements ``kernels.backend.Attend``."""

    config: ModelConfig
    kv: LayerKv
    inputs: LayerInputs

    def __call__(self, qkv: Tensor, norms: HeadNorms | None) -> Tensor:
        inputs, num_heads, scale = self.inputs, self.config.num_heads, self.config.attention_scale
        qk = qkv[:, : -self.config.num_kv_heads]
        if norms is not None:
            qk = _normed(qk, num_heads, norms)
        rotated = rotate(qk, *inputs.rotation)
        far = None
        if inputs.sink_rotation is not None:
            far = rotate(qk[:, :num_heads], *inputs.sink_rotation).to(qkv.dtype)
        qkv[:, : rotated.shape[1]] = rotated
        self.kv.write(inputs.slots, qkv[:, num_heads:])
        q = qkv[:, :num_heads]
        if far is None:
            return paged_attention(q, self.kv, inputs.plan, scale)
        return sink_attention(SinkQueries(q, far), self.kv, inputs.plan, scale)


def _normed(qk: Tensor, num_heads: int, norms: HeadNorms) -> Tensor:
    """fp32 ``[T, heads + kv_heads, head_dim]``."""
    normed: Tensor = rms_norm(qk.float(), norms.q.shape, None, norms.eps)
    normed[:, :num_heads] *= norms.q
    normed[:, num_heads:] *= norms.k
    return normed
