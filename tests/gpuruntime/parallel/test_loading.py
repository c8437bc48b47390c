"""A rank reads its part of each tensor and nothing else; together the ranks read all of it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from gpuruntime.kernels.torch_backend import TorchBackend
from gpuruntime.loading import weights
from gpuruntime.models.config import load_model_config
from gpuruntime.models.layers import Build
from gpuruntime.models.registry import build_model
from gpuruntime.parallel.group import Alone
from gpuruntime.parallel.shard import Shard
from helpers.families import save_random_model

HEADS = {"num_attention_heads": 8, "num_key_value_heads": 2}
EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


class Deaf(Alone):
    """A rank that no other one answers: enough to load."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard


class Counting:
    """A file that counts the elements it gives out of each tensor; it has no way to give a whole one unasked."""

    def __init__(self, path: str, counts: Counter[str], **how: Any) -> None:
        self._file, self._counts = safe_open(path, **how), counts

    def keys(self) -> list[str]:
        return list(self._file.keys())

    def get_slice(self, name: str) -> CountingSlice:
        return CountingSlice(self._file.get_slice(name), name, self._counts)


class CountingSlice:
    def __init__(self, inner: Any, name: str, counts: Counter[str]) -> None:
        self._inner, self._name, self._counts = inner, name, counts

    def get_shape(self) -> list[int]:
        shape: list[int] = self._inner.get_shape()
        return shape

    def __getitem__(self, part: Any) -> torch.Tensor:
        found: torch.Tensor = self._inner[part]
        self._counts[self._name] += found.numel()
        return found


def copies(name: str, size: int) -> float:
    """How often the ranks together hold a tensor: by its name, from the layout that Megatron describes."""
    if "embed_tokens" in name or "norm" in name or name.endswith("mlp.gate.weight"):
        return size
    if name.endswith(("o_proj.bias", "down_proj.bias")):
        return 1
    if "k_proj" in name or "v_proj" in name:
        return max(1, size // HEADS["num_key_value_heads"])
    return 1


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3_moe", EXPERTS),
    ],
)
def test_the_ranks_read_each_tensor_as_often_as_they_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, changes: dict[str, Any], size: int
) -> None:
    save_random_model(tmp_path, family, **HEADS, **changes)
    counts: Counter[str] = Counter()
    monkeypatch.setattr(weights, "safe_open", lambda path, **how: Counting(path, counts, **how))
    config, held = load_model_config(tmp_path), 0
    for rank in range(size):
        source = weights.WeightSource(tmp_path, torch.float32)
        model = build_model(Build(config, source, TorchBackend(torch.float32), Deaf(Shard(rank, size))))
        held += model.nbytes
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        sizes = {name: math.prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    assert counts == {name: count * copies(name, size) for name, count in sizes.items()}
    # Norms and biases are no products' weights, and of a tied head nothing is held beside the embedding.
    products = {name: count for name, count in counts.items() if not name.endswith("bias") and "norm" not in name}
    assert held == 4 * sum(products.values())


def test_what_is_kept_is_no_larger_than_what_was_asked_for(tmp_path: Path) -> None:
    """A view would keep the file's whole map in memory."""
    save_random_model(tmp_path, "llama", **HEADS)
    source = weights.WeightSource(tmp_path, torch.float32)
    for rows, columns, shape in ((slice(3, 9), slice(None), (6, 128)), (slice(None), slice(64, 96), (48, 32))):
        found = source.get("model.layers.0.self_attn.o_proj.weight", (48, 128), rows, columns)
        assert found.shape == shape
        assert found.is_contiguous()
        assert found.untyped_storage().nbytes() == 4 * found.numel()
