"""The shape of a model, read from a Hugging Face ``config.json``; what is not supported is refused by name.

Everything in which families differ inside the shared parts (windows, norms of heads, biases, scales) is plain data
here, so that the PyTorch layers and the C++ step read the same description. No torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpuruntime.modelinfo import SUPPORTED_ARCHITECTURES, SUPPORTED_ROPE

Raw = Mapping[str, Any]


class UnsupportedModel(ValueError):
    """The files are readable, but this engine cannot run them."""


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding: ``theta`` is the base; the other fields belong to the scaling named by ``kind``.

    low_freq_factor, high_freq_factor: llama3. beta_fast, beta_slow, truncate: the borders of YaRN's ramp.
    original_max_position: tokens of the context before scaling: llama3, YaRN, dynamic.
    attention_factor: multiplies cosines and sines; 1 but for YaRN.
    """

    theta: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """A mixture of experts: ``per_token`` of ``count`` gated MLPs of ``intermediate_size`` rows each.

    normalized: the weights of a token's experts are scaled to add up to 1. layers: one flag a layer, False where the
    layer has a plain MLP.
    """

    count: int
    per_token: int
    intermediate_size: int
    normalized: bool
    layers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One decoder.

    max_position: the context in tokens that the model was made for.
    attention_bias: of the q, k and v products; output_bias: of ``o_proj``; mlp_bias: of gate, up and down.
    sliding_windows: one per layer, how many last tokens a token sees, itself included; None sees all.
    qk_norm: RMSNorm over each head of q and k before rotation.
    attention_scale: multiplies ``q k^T``. embedding_scale: multiplies the embedded tokens.
    norm_offset: added to the weights of every norm.
    local_rope: the rotation of layers with a window, where it differs from ``rope``.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position: int
    tied_head: bool
    attention_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    activation: Literal["silu", "gelu_tanh"]
    attention_scale: float
    embedding_scale: float
    norm_offset: float
    sliding_windows: tuple[int | None, ...]
    rope: RopeConfig
    local_rope: RopeConfig | None = None
    experts: ExpertConfig | None = None

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def longest_context(self) -> int:
        """Tokens a request may grow to: beyond ``max_position`` where the scaling was made for it."""
        stretched = self.rope.original_max_position * self.rope.factor if self.rope.kind in ("dynamic", "yarn") else 0
        return max(self.max_position, int(stretched))

    @property
    def layer_ropes(self) -> tuple[RopeConfig, ...]:
        """The rotation of each layer."""
        local = self.local_rope or self.rope
        return tuple(self.rope if window is None else local for window in self.sliding_windows)

    def kv_bytes_per_token(self, element_bytes: int, scale_bytes: int = 0) -> int:
        """Bytes of K and V of one token over all layers; ``scale_bytes`` for each of a token's heads beside them."""
        return 2 * self.num_layers * self.num_kv_heads * (self.head_dim * element_bytes + scale_bytes)


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object. Raises ``ValueError`` naming the file for anything else."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def load_model_config(model_dir: Path) -> ModelConfig:
    """Reads ``config.json`` of a Hugging Face directory.

    Raises ``ValueError`` for a missing or malformed file and ``UnsupportedModel`` for what the engine cannot run.
    """
    path = model_dir / "config.json"
    if not path.is_file():
        raise ValueError(f"{model_dir}: no config.json, so this is no Hugging Face model directory")
    return parse_model_config(read_json(path))


def parse_model_config(raw: Raw) -> ModelConfig:
    """Checks and converts one ``config.json`` (transformers 4 and 5 spellings)."""
    architectures = raw.get("architectures") or []
    known = [name for name in architectures if name in SUPPORTED_ARCHITECTURES]
    if not known:
        named = ", ".join(map(str, architectures)) or str(raw.get("model_type"))
        raise UnsupportedModel(f"architecture {named} is not supported; supported: {_join(SUPPORTED_ARCHITECTURES)}")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise UnsupportedModel(f"quantization {method} is not supported; give bf16, fp16 or fp32 weights")
    hidden = _positive(raw, "hidden_size")
    heads = _positive(raw, "num_attention_heads")
    kv_heads = int(raw.get("num_key_value_heads") or heads)
    if heads % kv_heads:
        raise UnsupportedModel(f"num_attention_heads {heads} is no multiple of num_key_value_heads {kv_heads}")
    layers = _positive(raw, "num_hidden_layers")
    head_dim = int(raw.get("head_dim") or hidden // heads)
    common: dict[str, Any] = {
        "architecture": known[0],
        "vocab_size": _positive(raw, "vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": _positive(raw, "intermediate_size"),
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": float(raw.get("rms_norm_eps", 1e-6)),
        "max_position": _positive(raw, "max_position_embeddings"),
        "tied_head": bool(raw.get("tie_word_embeddings", False)),
        "attention_bias": False,
        "output_bias": False,
        "mlp_bias": False,
        "qk_norm": False,
        "activation": "silu",
        "attention_scale": head_dim**-0.5,
        "embedding_scale": 1.0,
        "norm_offset": 0.0,
        "sliding_windows": (None,) * layers,
    }
    return ModelConfig(**{**common, **_FAMILIES[known[0]](raw)})


# --- What a family's file says beyond the common fields ---------------------------------------------------------


def _llama(raw: Raw) -> dict[str, Any]:
    _require(raw, "hidden_act", "silu")
    bias = bool(raw.get("attention_bias", False))
    return {
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bool(raw.get("mlp_bias", False)),
        "rope": parse_rope(raw),
    }


def _mistral(raw: Raw) -> dict[str, Any]:
    _require(raw, "hidden_act", "silu")
    # A file without the field means transformers' 4096; null means no window.
    window = _window(raw) if raw.get("sliding_window", 4096) is not None else None
    return {"sliding_windows": (window,) * _positive(raw, "num_hidden_layers"), "rope": parse_rope(raw)}


def _qwen2(raw: Raw) -> dict[str, Any]:
    _require(raw, "hidden_act", "silu")
    return {"attention_bias": True, "sliding_windows": _qwen_windows(raw), "rope": parse_rope(raw)}


def _qwen3(raw: Raw) -> dict[str, Any]:
    _require(raw, "hidden_act", "silu")
    bias = bool(raw.get("attention_bias", False))
    return {
        "attention_bias": bias,
        "output_bias": bias,
        "qk_norm": True,
        "sliding_windows": _qwen_windows(raw),
        "rope": parse_rope(raw),
    }


def _qwen3_moe(raw: Raw) -> dict[str, Any]:
    layers = _positive(raw, "num_hidden_layers")
    # transformers 5 writes the second name.
    count = _positive(raw, "num_experts" if "num_experts" in raw else "num_local_experts")
    per_token = _positive(raw, "num_experts_per_tok")
    if per_token > count:
        raise UnsupportedModel(f"num_experts_per_tok {per_token} is more than num_experts {count}")
    step, plain = int(raw.get("decoder_sparse_step") or 1), raw.get("mlp_only_layers") or []
    experts = ExpertConfig(
        count=count,
        per_token=per_token,
        intermediate_size=_positive(raw, "moe_intermediate_size"),
        normalized=bool(raw.get("norm_topk_prob", False)),
        layers=tuple(index not in plain and (index + 1) % step == 0 for index in range(layers)),
    )
    # Unlike Qwen3, the window counts for every layer.
    window = _window(raw) if raw.get("use_sliding_window") else None
    return {**_qwen3(raw), "sliding_windows": (window,) * layers, "experts": experts}


def _gemma3(raw: Raw) -> dict[str, Any]:
    _require(raw, "hidden_activation", "gelu_pytorch_tanh")
    _require(raw, "final_logit_softcapping", None)
    _require(raw, "attn_logit_softcapping", None)
    _require(raw, "use_bidirectional_attention", False)
    bias = bool(raw.get("attention_bias", False))
    layers, pattern = _positive(raw, "num_hidden_layers"), int(raw.get("sliding_window_pattern") or 6)
    kinds = raw.get("layer_types") or [
        "full_attention" if (index + 1) % pattern == 0 else "sliding_attention" for index in range(layers)
    ]
    ropes = raw.get("rope_parameters") or {}
    local = {"rope_theta": raw.get("rope_local_base_freq") or 1e4}
    return {
        "head_dim": int(raw.get("head_dim") or 256),
        "tied_head": bool(raw.get("tie_word_embeddings", True)),
        "attention_bias": bias,
        "output_bias": bias,
        "qk_norm": True,
        "activation": "gelu_tanh",
        "attention_scale": float(raw.get("query_pre_attn_scalar") or 256) ** -0.5,
        "embedding_scale": math.sqrt(_positive(raw, "hidden_size")),
        "norm_offset": 1.0,
        "sliding_windows": _windows(raw, kinds),
        "rope": _rope(ropes.get("full_attention") or raw.get("rope_scaling") or {}, raw, theta=1e6),
        "local_rope": _rope(ropes.get("sliding_attention") or local, raw, theta=1e4),
    }


_FAMILIES: dict[str, Callable[[Raw], dict[str, Any]]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen3MoeForCausalLM": _qwen3_moe,
    "Gemma3ForCausalLM": _gemma3,
}


def _qwen_windows(raw: Raw) -> tuple[int | None, ...]:
    """Layers from ``max_window_layers`` on have the window, where ``use_sliding_window`` switches it on."""
    layers = _positive(raw, "num_hidden_layers")
    if not raw.get("use_sliding_window"):
        return (None,) * layers
    first = int(raw.get("max_window_layers", 28))
    kinds = ["sliding_attention" if index >= first else "full_attention" for index in range(layers)]
    return _windows(raw, raw.get("layer_types") or kinds)


def _windows(raw: Raw, kinds: list[str]) -> tuple[int | None, ...]:
    layers = _positive(raw, "num_hidden_layers")
    if len(kinds) != layers:
        raise ValueError(f"config.json: layer_types names {len(kinds)} layers, num_hidden_layers is {layers}")
    strange = sorted(set(kinds) - {"full_attention", "sliding_attention"})
    if strange:
        raise UnsupportedModel(f"layer type {strange[0]} is not supported; supported: full and sliding attention")
    return tuple(None if kind == "full_attention" else _window(raw) for kind in kinds)


def _window(raw: Raw) -> int:
    return _positive({"sliding_window": 4096, **raw}, "sliding_window")


# --- Rotary embedding -------------------------------------------------------------------------------------------


def parse_rope(raw: Raw) -> RopeConfig:
    """``rope_parameters`` (transformers 5) or ``rope_theta`` with ``rope_scaling`` (transformers 4)."""
    return _rope(raw.get("rope_parameters") or raw.get("rope_scaling") or {}, raw, theta=10_000.0)


def _rope(params: Raw, raw: Raw, *, theta: float) -> RopeConfig:
    """``theta``: the family's base where neither ``params`` nor the file says one."""
    kind = str(params.get("rope_type") or params.get("type") or "default")
    if kind not in SUPPORTED_ROPE:
        raise UnsupportedModel(f"rope scaling {kind} is not supported; supported: {_join(SUPPORTED_ROPE)}")
    if float(params.get("partial_rotary_factor") or raw.get("partial_rotary_factor") or 1.0) != 1.0:
        raise UnsupportedModel("partial_rotary_factor other than 1 is not supported")
    longest = int(raw.get("max_position_embeddings") or 8192)
    # Dynamic scaling starts where the model's own context ends, whatever else the file names.
    original = longest if kind == "dynamic" else int(params.get("original_max_position_embeddings") or longest)
    factor = float(params.get("factor") or (longest / original if kind == "yarn" else 1.0))
    if kind != "default" and factor < 1.0:
        raise UnsupportedModel(f"rope scaling {kind} with factor {factor}: must be at least 1")
    return RopeConfig(
        theta=float(params.get("rope_theta") or raw.get("rope_theta") or theta),
        kind=kind,
        factor=factor,
        low_freq_factor=float(params.get("low_freq_factor", 1.0)),
        high_freq_factor=float(params.get("high_freq_factor", 4.0)),
        original_max_position=original,
        beta_fast=float(params.get("beta_fast") or 32),
        beta_slow=float(params.get("beta_slow") or 1),
        truncate=bool(params.get("truncate", True)),
        attention_factor=_yarn_attention_factor(params, factor) if kind == "yarn" else 1.0,
    )


def _yarn_attention_factor(params: Raw, factor: float) -> float:
    """Section 3.4 of YaRN (arXiv:2309.00071), with DeepSeek's two factors where the file has both."""
    if params.get("attention_factor") is not None:
        return float(params["attention_factor"])

    def magnitude(strength: float) -> float:
        return 0.1 * strength * math.log(factor) + 1.0 if factor > 1 else 1.0

    if params.get("mscale") and params.get("mscale_all_dim"):
        return magnitude(params["mscale"]) / magnitude(params["mscale_all_dim"])
    return magnitude(1.0)


# --- Values -----------------------------------------------------------------------------------------------------


def parse_token_ids(value: Any) -> tuple[int, ...]:
    """An id, a list of ids or nothing, as ``config.json`` and ``generation_config.json`` write them."""
    if value is None:
        return ()
    return tuple(int(item) for item in (value if isinstance(value, list) else [value]))


def _positive(raw: Raw, key: str) -> int:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"config.json: {key} must be a positive integer, found {value!r}")
    return value


def _require(raw: Raw, key: str, only: str | bool | None) -> None:
    """Refuses another value of ``key`` than the one the layers implement; absent is that one."""
    value = raw.get(key, only)
    if (value or None) != (only or None):
        raise UnsupportedModel(f"{key} = {value} is not supported; supported: {only}")


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(names)
