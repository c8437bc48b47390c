"""Qwen 3 (arXiv:2505.09388): Llama's layer with each head of q and k normed before rotation."""

from __future__ import annotations

from gpuruntime.models.layers import Attention, Build, GatedMlp, PreNormLayer, RmsNorm, head_norms


def qwen3_layer(build: Build, index: int) -> PreNormLayer:
    at = f"model.layers.{index}"
    return PreNormLayer(
        RmsNorm(build, f"{at}.input_layernorm"),
        Attention(build, f"{at}.self_attn", head_norms(build, f"{at}.self_attn")),
        RmsNorm(build, f"{at}.post_attention_layernorm"),
        GatedMlp(build, f"{at}.mlp", build.config.intermediate_size),
    )
