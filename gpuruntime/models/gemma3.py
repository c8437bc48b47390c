"""Gemma 3, text (arXiv:2503.19786): a norm before and after attention and MLP, and normed heads of q and k.

Most layers see a sliding window and rotate with a base of their own; every sixth sees the whole context. That, the
scaled embedding and the norms' weights, stored less one, are data in ``ModelConfig``.
"""

from __future__ import annotations

from torch import Tensor

from gpuruntime.kernels.kv_memory import LayerKv
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Attention, GatedMlp, HeadNorm, LayerInputs, RmsNorm


class Gemma3Layer:
    """``x += norm(attention(norm(x)))``, then ``x += norm(mlp(norm(x)))``."""

    def __init__(self, config: ModelConfig, weights: WeightSource, index: int) -> None:
        at = f"model.layers.{index}"
        self._before_attention = RmsNorm(config, weights, f"{at}.input_layernorm")
        self._attention = Attention(config, weights, f"{at}.self_attn", HeadNorm(config, weights, f"{at}.self_attn"))
        self._after_attention = RmsNorm(config, weights, f"{at}.post_attention_layernorm")
        self._before_mlp = RmsNorm(config, weights, f"{at}.pre_feedforward_layernorm")
        self._mlp = GatedMlp(config, weights, f"{at}.mlp", config.intermediate_size)
        self._after_mlp = RmsNorm(config, weights, f"{at}.post_feedforward_layernorm")
        self.nbytes = self._attention.nbytes + self._mlp.nbytes

    def forward(self, x: Tensor, kv: LayerKv, inputs: LayerInputs) -> None:
        x += self._after_attention(self._attention(self._before_attention(x), kv, inputs))
        x += self._after_mlp(self._mlp(self._before_mlp(x)))
