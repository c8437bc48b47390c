"""What a model's own files say besides its sizes: sampling, licence; and its needs with default settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuruntime.gguf_header import read_gguf_header
from gpuruntime.modelinfo import MemoryNeeds, ModelFile, ModelInfo, memory_needs

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
