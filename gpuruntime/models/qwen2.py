"""Qwen 2 and 2.5 (arXiv:2407.10671): Llama's layer with biases on q, k and v."""

from __future__ import annotations

from gpuruntime.models.layers import Build, PreNormLayer
from gpuruntime.models.llama import llama_layer


def qwen2_layer(build: Build, index: int) -> PreNormLayer:
    """The biases come with ``config.attention_bias``, which this family's files need not name."""
    return llama_layer(build, index)
