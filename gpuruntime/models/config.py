"""The shape of a model, read from a Hugging Face ``config.json``; what is not supported is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuruntime.modelinfo import SUPPORTED_ARCHITECTURES, SUPPORTED_ROPE


class UnsupportedModel(ValueError):
    """The files are readable, but this engine cannot run them."""


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding: ``theta`` is the base; the other fields belong to the scaling named by ``kind``."""

    theta: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of one decoder; ``max_position`` is the longest context in tokens the model was made for."""

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
    mlp_bias: bool
    rope: RopeConfig

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes of K and V of one token over all layers."""
        return 2 * self.num_layers * self.kv_size * element_bytes


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


def parse_model_config(raw: Mapping[str, Any]) -> ModelConfig:
    """Checks and converts one ``config.json`` (transformers 4 and 5 spellings)."""
    architectures = raw.get("architectures") or []
    known = [name for name in architectures if name in SUPPORTED_ARCHITECTURES]
    if not known:
        named = ", ".join(map(str, architectures)) or str(raw.get("model_type"))
        raise UnsupportedModel(f"architecture {named} is not supported; supported: {_join(SUPPORTED_ARCHITECTURES)}")
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise UnsupportedModel(f"quantization {method} is not supported; give bf16, fp16 or fp32 weights")
    if raw.get("hidden_act", "silu") != "silu":
        raise UnsupportedModel(f"activation {raw['hidden_act']} is not supported; supported: silu")
    hidden = _positive(raw, "hidden_size")
    heads = _positive(raw, "num_attention_heads")
    config = ModelConfig(
        architecture=known[0],
        vocab_size=_positive(raw, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_positive(raw, "intermediate_size"),
        num_layers=_positive(raw, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=int(raw.get("head_dim") or hidden // heads),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        max_position=_positive(raw, "max_position_embeddings"),
        tied_head=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bool(raw.get("attention_bias", False)),
        mlp_bias=bool(raw.get("mlp_bias", False)),
        rope=parse_rope(raw),
    )
    if config.num_heads % config.num_kv_heads:
        raise UnsupportedModel(
            f"num_attention_heads {heads} is no multiple of num_key_value_heads {config.num_kv_heads}"
        )
    return config


def parse_rope(raw: Mapping[str, Any]) -> RopeConfig:
    """``rope_parameters`` (transformers 5) or ``rope_theta`` with ``rope_scaling`` (transformers 4)."""
    params: dict[str, Any] = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    kind = str(params.get("rope_type") or params.get("type") or "default")
    if kind not in SUPPORTED_ROPE:
        raise UnsupportedModel(f"rope scaling {kind} is not supported; supported: {_join(SUPPORTED_ROPE)}")
    if float(params.get("partial_rotary_factor") or raw.get("partial_rotary_factor") or 1.0) != 1.0:
        raise UnsupportedModel("partial_rotary_factor other than 1 is not supported")
    original = params.get("original_max_position_embeddings") or raw.get("max_position_embeddings") or 8192
    return RopeConfig(
        theta=float(params.get("rope_theta") or raw.get("rope_theta") or 10_000.0),
        kind=kind,
        factor=float(params.get("factor", 1.0)),
        low_freq_factor=float(params.get("low_freq_factor", 1.0)),
        high_freq_factor=float(params.get("high_freq_factor", 4.0)),
        original_max_position=int(original),
    )


def parse_token_ids(value: Any) -> tuple[int, ...]:
    """An id, a list of ids or nothing, as ``config.json`` and ``generation_config.json`` write them."""
    if value is None:
        return ()
    return tuple(int(item) for item in (value if isinstance(value, list) else [value]))


def _positive(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"config.json: {key} must be a positive integer, found {value!r}")
    return value


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(names)
