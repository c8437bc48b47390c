"""Which layer runs which architecture."""

from __future__ import annotations

from collections.abc import Callable

from gpuruntime.models.decoder import Decoder
from gpuruntime.models.gemma3 import Gemma3Layer
from gpuruntime.models.layers import Build, Layer
from gpuruntime.models.llama import llama_layer
from gpuruntime.models.mistral import mistral_layer
from gpuruntime.models.qwen2 import qwen2_layer
from gpuruntime.models.qwen3 import qwen3_layer
from gpuruntime.models.qwen3_moe import qwen3_moe_layer

ARCHITECTURES: dict[str, Callable[[Build, int], Layer]] = {
    "LlamaForCausalLM": llama_layer,
    "MistralForCausalLM": mistral_layer,
    "Qwen2ForCausalLM": qwen2_layer,
    "Qwen3ForCausalLM": qwen3_layer,
    "Qwen3MoeForCausalLM": qwen3_moe_layer,
    "Gemma3ForCausalLM": Gemma3Layer,
}


def build_model(build: Build) -> Decoder:
    """Loads the weights of a supported architecture."""
    layer = ARCHITECTURES[build.config.architecture]
    return Decoder(build, [layer(build, index) for index in range(build.config.num_layers)])
