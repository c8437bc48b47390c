"""Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783): pre-norm layers of grouped attention and a SwiGLU MLP."""

from __future__ import annotations

from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Attention, GatedMlp, PreNormLayer, RmsNorm


def llama_layer(config: ModelConfig, weights: WeightSource, index: int) -> PreNormLayer:
    at = f"model.layers.{index}"
    return PreNormLayer(
        RmsNorm(config, weights, f"{at}.input_layernorm"),
        Attention(config, weights, f"{at}.self_attn"),
        RmsNorm(config, weights, f"{at}.post_attention_layernorm"),
        GatedMlp(config, weights, f"{at}.mlp", config.intermediate_size),
    )
