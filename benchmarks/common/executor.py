"""The engine's executor without the engine: one model, steps made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import Executor, StepBatch
from gpuruntime.engine.loader import resolve_max_len
from gpuruntime.engine.shape import model_shape
from gpuruntime.models.config import ModelConfig, load_model_config
from gpuruntime.roofline import ModelShape

WEIGHT_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
KV_ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "int8": 2}


@dataclass(frozen=True, slots=True)
class Loaded:
    executor: Executor
    model: ModelConfig
    config: EngineConfig


def load_executor(model: Path, dtype: Any, *, kv_tokens: int, max_model_len: int, max_step_tokens: int = 512) -> Loaded:
    """Weights at ``dtype`` and at least ``kv_tokens`` tokens of KV, with the threads that a server would take."""
    model_config = load_model_config(model)
    kv_bytes = model_config.kv_bytes_per_token(KV_ELEMENT_BYTES[dtype]) * kv_tokens
    config = EngineConfig(
        model, dtype=dtype, kv_bytes=kv_bytes, max_model_len=max_model_len, max_num_batched_tokens=max_step_tokens
    )
    config.validate()
    import torch

    from gpuruntime.engine.executors import make_executor

    torch.set_num_threads(config.resolved_threads)
    executor = make_executor(config, model_config, resolve_max_len(config, model_config))
    if executor.num_blocks * BLOCK_TOKENS < kv_tokens:
        raise SystemExit(f"{executor.num_blocks} KV blocks hold fewer than the {kv_tokens} tokens that are needed")
    return Loaded(executor, model_config, config)


def shape_of(model: ModelConfig, dtype: str) -> ModelShape:
    """Bytes as they are read at ``dtype``; the scales of int8 rows, under 1 %, are left out of the floor."""
    parameters = model_shape(model, 1)
    return ModelShape(
        parameters=parameters.parameters,
        weight_bytes=parameters.parameters * WEIGHT_BYTES[dtype],
        kv_bytes_per_token=model.kv_bytes_per_token(KV_ELEMENT_BYTES[dtype]),
        attention_flops=parameters.attention_flops,
    )


def step_bytes(shape: ModelShape, batch: int, context: int) -> int:
    """What one decode step reads at least: every weight once, every request's K and V once."""
    return shape.weight_bytes + batch * context * shape.kv_bytes_per_token


def make_step(rows: list[tuple[list[int], int, list[int]]], wanted: list[int] | None = None) -> StepBatch:
    """Rows of (tokens, position of the first, block table); logits of the ``wanted`` tokens, or of each row's last."""
    begins = np.zeros(len(rows) + 1, dtype=np.int32)
    begins[1:] = np.cumsum([len(tokens) for tokens, _, _ in rows])
    tables = np.zeros((len(rows), max(len(table) for _, _, table in rows)), dtype=np.int32)
    for index, (_, _, table) in enumerate(rows):
        tables[index, : len(table)] = table
    return StepBatch(
        token_ids=np.array([token for tokens, _, _ in rows for token in tokens], dtype=np.int32),
        begins=begins,
        positions=np.array([position for _, position, _ in rows], dtype=np.int32),
        tables=tables,
        logits_rows=begins[1:] - 1 if wanted is None else np.array(wanted, dtype=np.int32),
    )


def own_blocks(row: int, tokens: int) -> list[int]:
    """The blocks of one of several rows that hold up to ``tokens`` tokens each, one row after the other."""
    each = -(-tokens // BLOCK_TOKENS)
    return list(range(row * each, (row + 1) * each))
