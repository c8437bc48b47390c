"""Which class runs which architecture."""

from __future__ import annotations

from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.llama import LlamaModel

ARCHITECTURES = {"LlamaForCausalLM": LlamaModel}


def build_model(config: ModelConfig, weights: WeightSource, max_len: int) -> LlamaModel:
    """Loads the weights of a supported architecture for contexts of up to ``max_len`` tokens."""
    return ARCHITECTURES[config.architecture](config, weights, max_len)
