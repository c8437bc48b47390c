"""Qwen 3 (arXiv:2505.09388): Llama's layer with each head of q and k normed before rotation."""

from __future__ import annotations

from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Attention, GatedMlp, HeadNorm, PreNormLayer, RmsNorm


def qwen3_layer(config: ModelConfig, weights: WeightSource, index: int) -> PreNormLayer:
    at = f"model.layers.{index}"
    return PreNormLayer(
        RmsNorm(config, weights, f"{at}.input_layernorm"),
        Attention(config, weights, f"{at}.self_attn", HeadNorm(config, weights, f"{at}.self_attn")),
        RmsNorm(config, weights, f"{at}.post_attention_layernorm"),
        GatedMlp(config, weights, f"{at}.mlp", config.intermediate_size),
    )
