"""Random fp32 checkpoints of every family, and logits of our executor and of transformers beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.executor import Draws, Executor, Known, StepBatch
from helpers.engine import TINY

CLASSES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "mistral": ("MistralConfig", "MistralForCausalLM"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
}

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 8.0, "original_max_position_embeddings": 64}


def save_random_model(target: Path, family: str, *, seed: int = 0, **changes: Any) -> Any:
    """Writes a random checkpoint made by transformers and returns transformers' own model."""
    import transformers

    torch.manual_seed(seed)
    config_class, model_class = (getattr(transformers, name) for name in CLASSES[family])
    model = model_class(config_class(**{**TINY, **changes})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(target)
    return model


def reference_logits(model: Any, tokens: Sequence[int]) -> Tensor:
    """transformers' logits ``[len(tokens), vocab]`` from one pass without a cache."""
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([list(tokens)]), use_cache=False).logits[0]
    return logits


def chunked_logits(executor: Executor, tokens: Sequence[int], chunks: Sequence[int], blocks: Sequence[int]) -> Tensor:
    """Logits ``[len(tokens), vocab]`` of every token, computed in ``chunks`` with K and V in ``blocks``."""
    rows = []
    start = 0
    for count in chunks:
        rows.append(executor.logits(one_row(tokens, start, count, blocks)).clone())
        start += count
    assert start == len(tokens)
    return torch.cat(rows)


def one_row(tokens: Sequence[int], start: int, count: int, blocks: Sequence[int]) -> StepBatch:
    """A batch of one row that wants the logits of all its tokens."""
    return StepBatch(
        token_ids=np.array(tokens[start : start + count], dtype=np.int32),
        begins=np.array([0, count], dtype=np.int32),
        positions=np.array([start], dtype=np.int32),
        tables=np.array([blocks], dtype=np.int32),
        logits_rows=np.arange(count, dtype=np.int32),
    )


@dataclass
class Recorder:
    """An executor that keeps the logits of every row it was asked for, with the row's position in its context."""

    inner: Executor
    rows: list[tuple[int, Tensor]] = field(default_factory=list)
    runs_ahead: bool = False
    draws: bool = False

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def num_blocks(self) -> int:
        return self.inner.num_blocks

    @property
    def weights_bytes(self) -> int:
        return self.inner.weights_bytes

    def set_threads(self, count: int) -> None:
        self.inner.set_threads(count)

    def logits(self, batch: StepBatch) -> Tensor:
        logits = self.inner.logits(batch)
        for row, token in enumerate(batch.logits_rows.tolist()):
            owner = int(np.searchsorted(batch.begins, token, side="right")) - 1
            self.rows.append((int(batch.positions[owner] + token - batch.begins[owner]), logits[row].clone()))
        return logits

    def states(self, batch: StepBatch) -> Tensor:
        return self.inner.states(batch)

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        return Known(self.logits(batch).argmax(dim=-1).tolist())


def error(found: Tensor, expected: Tensor) -> float:
    """The largest error relative to the largest logit."""
    return float((found - expected).abs().max() / expected.abs().max())
