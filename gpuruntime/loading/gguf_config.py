"""The ``config.json`` of a GGUF file's model, from its metadata (keys: ggml's gguf.md, "Standardized key-value pairs").

What llama.cpp knows of a family and the file does not say is written here beside its reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuruntime.gguf_header import GgufHeader

# Llama 3.1 and later store the factors of their rotation as a tensor; all were made for this many tokens at first.
_LLAMA3_ORIGINAL = 8192
_GEMMA_27B_LAYERS = 62
_GEMMA_PATTERN = 6


class Metadata:
    """A header's values by name, ``{arch}`` standing for the architecture."""

    def __init__(self, header: GgufHeader) -> None:
        self._values = header.metadata
        self.architecture = str(header.metadata.get("general.architecture", "unknown"))

    def get(self, key: str, default: Any = None) -> Any:
        return self._values.get(key.replace("{arch}", self.architecture), default)

    def count(self, key: str, default: int | None = None) -> int:
        """A positive integer. Raises ``ValueError`` naming the key for anything else."""
        value = self.get(key, default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]  # one entry a layer, all equal
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{self._named(key)} must be a positive integer, found {_short(value)}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{self._named(key)} must be a number, found {_short(value)}")
        return float(value)

    def refuse(self, *keys: str) -> None:
        """Raises ``ValueError`` when a key is there with another value than 0 or nothing."""
        for key in keys:
            if self.get(key):
                raise ValueError(f"{self._named(key)} = {_short(self.get(key))} is not supported")

    def _named(self, key: str) -> str:
        return key.replace("{arch}", self.architecture)


def build_config(header: GgufHeader, rope_factors: np.ndarray | None = None) -> dict[str, Any]:
    """The model's ``config.json``; ``rope_factors``: the tensor ``rope_freqs.weight``, where there is one.

    Raises ``ValueError`` for an architecture or setting that is not supported and for senseless sizes.
    """
    meta = Metadata(header)
    if meta.architecture not in _FAMILIES:
        supported = ", ".join(_FAMILIES)
        raise ValueError(f"GGUF architecture {meta.architecture} is not supported; supported: {supported}")
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    embedding = shapes.get("token_embd.weight", ())
    if len(embedding) != 2:
        raise ValueError("the tensor token_embd.weight is missing or no matrix")
    _check_counts(meta, header)
    heads, hidden = meta.count("{arch}.attention.head_count"), meta.count("{arch}.embedding_length")
    common: dict[str, Any] = {
        "torch_dtype": "bfloat16",
        "vocab_size": embedding[1],
        "hidden_size": hidden,
        "intermediate_size": meta.count("{arch}.feed_forward_length"),
        "num_hidden_layers": meta.count("{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": meta.count("{arch}.attention.head_count_kv", heads),
        "head_dim": meta.count("{arch}.attention.key_length", hidden // heads),
        "rms_norm_eps": meta.number("{arch}.attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": meta.count("{arch}.context_length"),
        "tie_word_embeddings": "output.weight" not in shapes,
    }
    for name in ("bos", "eos"):
        token = meta.get(f"tokenizer.ggml.{name}_token_id")
        if token is not None:
            common[f"{name}_token_id"] = token
    rotated = meta.count("{arch}.rope.dimension_count", common["head_dim"])
    if rotated != common["head_dim"]:
        raise ValueError(f"{meta.architecture}.rope.dimension_count {rotated} of a head of {common['head_dim']}")
    if meta.count("{arch}.attention.value_length", common["head_dim"]) != common["head_dim"]:
        raise ValueError("keys and values of different lengths are not supported")
    meta.refuse("{arch}.attn_logit_softcapping", "{arch}.final_logit_softcapping", "{arch}.logit_scale")
    return common | _FAMILIES[meta.architecture](meta, common, rope_factors)


def _check_counts(meta: Metadata, header: GgufHeader) -> None:
    """What everything below counts up to is no more than the file holds: a corrupt number must not cost hours."""
    layers, experts = meta.count("{arch}.block_count"), meta.get("{arch}.expert_count") or 0
    if layers > len(header.tensors):
        raise ValueError(f"{meta.architecture}.block_count {layers} of a file with {len(header.tensors)} tensors")
    stacked = max((tensor.shape[-1] for tensor in header.tensors if len(tensor.shape) == 3), default=0)
    if meta.architecture == "qwen3moe" and experts != stacked:
        raise ValueError(f"{meta.architecture}.expert_count {experts} of a file whose tensors hold {stacked}")


def _llama(meta: Metadata, common: dict[str, Any], factors: np.ndarray | None) -> dict[str, Any]:
    """Llama, and Mistral, which GGUF calls llama too: only the window tells them apart."""
    meta.refuse("{arch}.expert_count")
    window = meta.get("{arch}.attention.sliding_window")
    family = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "mlp_bias": False}
    if window:
        family = {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "sliding_window": meta.count("{arch}.attention.sliding_window"),
        }
    return {**family, "hidden_act": "silu", **_rope(meta, common["head_dim"], factors)}


def _qwen2(meta: Metadata, common: dict[str, Any], factors: np.ndarray | None) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "use_sliding_window": False,
        **_rope(meta, common["head_dim"], factors),
    }


def _qwen3(meta: Metadata, common: dict[str, Any], factors: np.ndarray | None) -> dict[str, Any]:
    shared = _qwen2(meta, common, factors)
    return shared | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False}


def _qwen3_moe(meta: Metadata, common: dict[str, Any], factors: np.ndarray | None) -> dict[str, Any]:
    return _qwen3(meta, common, factors) | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_experts": meta.count("{arch}.expert_count"),
        "num_experts_per_tok": meta.count("{arch}.expert_used_count"),
        "moe_intermediate_size": meta.count("{arch}.expert_feed_forward_length"),
        "norm_topk_prob": True,  # of every released model; the file does not say
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _gemma3(meta: Metadata, common: dict[str, Any], factors: np.ndarray | None) -> dict[str, Any]:
    layers = common["num_hidden_layers"]
    pattern = meta.count("{arch}.attention.sliding_window_pattern", _GEMMA_PATTERN)
    kinds = ["full_attention" if (layer + 1) % pattern == 0 else "sliding_attention" for layer in range(layers)]
    # The file does not say what q k^T is divided by; of the sizes only 27B differs from its heads' length.
    scalar = common["hidden_size"] // common["num_attention_heads"] if layers == _GEMMA_27B_LAYERS else None
    rope = _rope(meta, common["head_dim"], factors, base=1e6)
    theta = rope["rope_theta"]
    full = {"rope_type": "default", "rope_theta": theta, **rope.get("rope_scaling", {})}
    local = meta.number("{arch}.rope.freq_base_swa", 1e4)
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "sliding_window": meta.count("{arch}.attention.sliding_window"),
        "layer_types": kinds,
        "query_pre_attn_scalar": scalar or common["head_dim"],
        "rope_parameters": {
            "full_attention": full,
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
    }


_FAMILIES: dict[str, Callable[[Metadata, dict[str, Any], np.ndarray | None], dict[str, Any]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3_moe,
    "gemma3": _gemma3,
}
GGUF_ARCHITECTURES = tuple(_FAMILIES)


def _rope(meta: Metadata, head_dim: int, factors: np.ndarray | None, *, base: float = 1e4) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_theta": meta.number("{arch}.rope.freq_base", base)}
    kind = str(meta.get("{arch}.rope.scaling.type", "none"))
    if factors is not None:
        if kind not in ("none", "llama3"):
            raise ValueError(f"rope scaling {kind} beside the tensor rope_freqs.weight is not supported")
        return found | {"rope_scaling": _llama3_scaling(factors, found["rope_theta"], head_dim)}
    if kind == "none":
        # Files older than the key "type" scaled linearly.
        old = meta.number("{arch}.rope.scale_linear", 1.0)
        return found if old == 1.0 else found | {"rope_scaling": {"rope_type": "linear", "factor": old}}
    if kind not in ("linear", "yarn"):
        raise ValueError(f"rope scaling {kind} is not supported; supported: linear, yarn, llama3")
    scaling: dict[str, Any] = {"rope_type": kind, "factor": meta.number("{arch}.rope.scaling.factor")}
    if kind == "yarn":
        original = "{arch}.rope.scaling.original_context_length"
        if meta.get(original) is not None:
            scaling["original_max_position_embeddings"] = meta.count(original)
        for key, name in (("beta_fast", "beta_fast"), ("beta_slow", "beta_slow")):
            if meta.get(f"{{arch}}.rope.scaling.yarn_{key}") is not None:
                scaling[name] = meta.number(f"{{arch}}.rope.scaling.yarn_{key}")
        meta.refuse("{arch}.rope.scaling.yarn_log_multiplier")
    return found | {"rope_scaling": scaling}


def _llama3_scaling(factors: np.ndarray, theta: float, head_dim: int) -> dict[str, Any]:
    """The settings behind the stored divisors of the frequencies. Raises ``ValueError`` when they are not Llama 3's."""
    factor, low, high = float(factors.max()), 1.0, 4.0
    original = _LLAMA3_ORIGINAL
    if factors.shape == (head_dim // 2,):
        wavelength = 2 * math.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
        smooth = ((original / wavelength - low) / (high - low)).clip(0.0, 1.0)
        expected = 1.0 / ((1.0 - smooth) / factor + smooth)
        if np.allclose(factors, expected, rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }
    raise ValueError("the tensor rope_freqs.weight does not hold the rotation factors of Llama 3")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
