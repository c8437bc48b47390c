"""Mistral (Jiang et al., arXiv:2310.06825): Llama's layer, where each token sees a sliding window of the last ones."""

from __future__ import annotations

from gpuruntime.models.layers import Build, PreNormLayer
from gpuruntime.models.llama import llama_layer


def mistral_layer(build: Build, index: int) -> PreNormLayer:
    """The window of layer ``index`` is ``config.sliding_windows[index]``; the attention plan applies it."""
    return llama_layer(build, index)
