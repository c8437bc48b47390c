"""Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783): pre-norm layers of grouped attention and a SwiGLU MLP."""

from __future__ import annotations

from gpuruntime.models.layers import Attention, Build, GatedMlp, PreNormLayer, RmsNorm


def llama_layer(build: Build, index: int) -> PreNormLayer:
    at = f"model.layers.{index}"
    return PreNormLayer(
        RmsNorm(build, f"{at}.input_layernorm"),
        Attention(build, f"{at}.self_attn"),
        RmsNorm(build, f"{at}.post_attention_layernorm"),
        GatedMlp(build, f"{at}.mlp", build.config.intermediate_size),
    )
