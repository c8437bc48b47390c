"""The decode step of an 8B-shaped model on the serving path: the Triton executor, its graphs and its arena."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.gpu_clock import Bench, Rates, Row
from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import StepBatch
from gpuruntime.engine.shape import model_shape
from gpuruntime.engine.triton_executor import TritonExecutor
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig, load_model_config

CONTEXT = 1024
_STEPS = 30
# Llama 3 8B's shape (arXiv:2407.21783, table 3).
_SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
_DRY_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
_OTHERS = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


class RandomWeights(WeightSource):
    """Any tensor that is asked for, drawn on the device: an 8B model needs no files."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device

    def has(self, name: str) -> bool:
        return True

    def _mapped(self, name: str, shape: tuple[int, ...], part: tuple[slice, ...]) -> Tensor:
        sizes = [len(range(*rows.indices(size))) for size, rows in zip(shape, part, strict=False)]
        tensor = torch.empty([*sizes, *shape[len(part) :]], dtype=self._dtype, device=self._device)
        return tensor.fill_(1) if "norm" in name else tensor.normal_(std=0.02)


def step(bench: Bench, rates: Rates) -> Iterator[Row]:
    """Each batch's step over contexts of 1,024 tokens; the floor is to read the weights and K and V once."""
    batches, context = ((1, 3), 24) if bench.dry else ((1, 16, 64), CONTEXT)
    model = _config(_DRY_SHAPE if bench.dry else _SHAPE)
    shape = model_shape(model, bench.dtype.itemsize)
    blocks = max(batches) * -(-context // BLOCK_TOKENS)
    kv_bytes = blocks * BLOCK_TOKENS * shape.kv_bytes_per_token
    # Twice the weights' largest tensors at a time while they are made; the graphs' activations besides.
    if not bench.has_memory(int(1.2 * shape.weight_bytes) + kv_bytes, "the step of an 8B model"):
        return
    config = EngineConfig(
        model_path=Path("random"),
        dtype="fp32" if bench.dry else "bf16",
        max_num_seqs=max(batches),
        max_num_batched_tokens=max(batches) if bench.dry else 512,
        kv_bytes=kv_bytes,
    )
    executor = TritonExecutor(config, model, context, source=RandomWeights(bench.dtype, bench.device))
    for batch in batches:
        if not bench.has_time(f"step of batch {batch}"):
            continue
        seconds = _step_seconds(bench, executor, _decodes(batch, context))
        nbytes = shape.weight_bytes + batch * context * shape.kv_bytes_per_token
        case = f"8B shape, batch {batch}, context {context}"
        yield Row("step", case, seconds, nbytes / rates.bytes_s, "bandwidth", {}, {"batch": batch, "context": context})


def _step_seconds(bench: Bench, executor: TritonExecutor, batch: StepBatch) -> float:
    """A step among others that were launched before it was read, as the engine runs ahead."""

    def run() -> None:
        picks = [executor.launch(batch) for _ in range(1 if bench.dry else _STEPS)]
        picks[-1].tokens()

    return bench.seconds(run, hosted=True) / (1 if bench.dry else _STEPS)


def _decodes(batch: int, context: int) -> StepBatch:
    width = -(-context // BLOCK_TOKENS)
    return StepBatch(
        token_ids=np.arange(batch, dtype=np.int32),
        begins=np.arange(batch + 1, dtype=np.int32),
        positions=np.full(batch, context - 1, dtype=np.int32),
        tables=np.random.default_rng(0).permutation(batch * width).astype(np.int32).reshape(batch, width),
        logits_rows=np.arange(batch, dtype=np.int32),
    )


def _config(shape: dict[str, int]) -> ModelConfig:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(_OTHERS | shape))
        return load_model_config(Path(folder))
