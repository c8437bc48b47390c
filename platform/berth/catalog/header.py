"""What a model's own files say besides its sizes: sampling, licence; and its needs with default settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gpuruntime.gguf_header import read_gguf_header
from gpuruntime.modelinfo import DEFAULT_CONTEXT, MemoryNeeds, ModelFile, ModelInfo, memory_needs

# Engine, weights, K and V, the best first.
FORMATS = (("native", "bf16", "auto"), ("native", "int8", "auto"), ("native", "int8", "int8"), ("vllm", "bf16", "auto"))
_CARD_CHARS = 64 << 10
SAMPLING_RANGES = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "top_k": (0, 10_000)}


def info_of(header: dict[str, Any]) -> ModelInfo:
    """The ``ModelInfo`` that ``Model.header`` keeps."""
    parts = {**header, "tensor_types": tuple(header["tensor_types"])}
    return ModelInfo(**{**parts, "files": tuple(ModelFile(**file) for file in header["files"])})


def needs_at_defaults(info: ModelInfo) -> MemoryNeeds:
    """For what does not depend on KV memory: weights, KV per token, workspace."""
    return memory_needs(info, kv_bytes=1 << 40)


def default_sampling(directory: Path) -> dict[str, float]:
    """Temperature, top_p and top_k of ``generation_config.json``, where they are sane."""
    try:
        data = json.loads((directory / "generation_config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    found: dict[str, float] = {}
    for name, (low, high) in SAMPLING_RANGES.items():
        value = data.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            found[name] = value
    return found


def licence(source: Path, info: ModelInfo) -> str:
    """What a GGUF file states; empty for a directory, whose format has no place for it."""
    if info.format != "gguf":
        return ""
    return str(read_gguf_header(source).metadata.get("general.license", ""))[:80]


def licence_of_card(directory: Path) -> str:
    """What the front matter of a model card (README.md) states; empty when it states nothing."""
    try:
        with (directory / "README.md").open(encoding="utf-8", errors="replace") as card:
            text = card.read(_CARD_CHARS)
    except OSError:
        return ""
    front = re.match(r"---\s*\n(.*?)\n---", text, re.DOTALL)
    found = re.search(r"^license:[ \t]*([\w.+-]{1,80})[ \t]*$", front[1], re.MULTILINE) if front else None
    return found[1] if found else ""


def requirements(header: dict[str, Any]) -> list[dict[str, Any]]:
    """What a replica takes at the least in each format: with memory for one request of the default length."""
    info = info_of(header)
    length = min(info.context_length, DEFAULT_CONTEXT)
    found = []
    for engine, dtype, kv_dtype in FORMATS:
        per_token = memory_needs(info, dtype, kv_bytes=1 << 50, kv_dtype=kv_dtype).kv_bytes_per_token
        needs = memory_needs(info, dtype, length, 1, kv_bytes=-(-length // 16) * 16 * per_token, kv_dtype=kv_dtype)
        found.append(
            {
                "engine": engine,
                "dtype": dtype,
                "kv_dtype": kv_dtype,
                "weights_bytes": needs.weights_bytes,
                "kv_bytes_per_token": per_token,
                "workspace_bytes": needs.workspace_bytes,
                "context_length": length,
                "smallest_bytes": needs.total_bytes,
            }
        )
    return found
