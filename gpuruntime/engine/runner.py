"""Turns scheduled rows into tensors, runs the model and samples; knows no policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.scheduler import Row
from gpuruntime.kernels.paged_attention import AttentionPlan, PrefillChunk, plan_decodes, plan_prefill
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.registry import build_model
from gpuruntime.sampling.sampler import RowParams, sample, uniform

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class ModelRunner:
    """The model's weights and KV memory on one device."""

    def __init__(self, config: EngineConfig, model_config: ModelConfig, max_len: int) -> None:
        self.dtype = DTYPES[config.dtype]
        self._model = build_model(model_config, WeightSource(config.model_path, self.dtype), max_len)
        self.weights_bytes = self._model.nbytes
        block_bytes = model_config.kv_bytes_per_token(self.dtype.itemsize) * BLOCK_TOKENS
        self.num_blocks = config.kv_bytes // block_bytes
        if self.num_blocks == 0:
            raise ValueError(f"kv_bytes {config.kv_bytes}: one block of {BLOCK_TOKENS} tokens takes {block_bytes}")
        shape = (
            model_config.num_layers,
            self.num_blocks,
            BLOCK_TOKENS,
            2,
            model_config.num_kv_heads,
            model_config.head_dim,
        )
        # numpy's zeros are mapped and not touched: memory becomes resident as blocks are used.
        memory = np.zeros(self.num_blocks * block_bytes, dtype=np.uint8)
        self._pools = torch.from_numpy(memory).view(self.dtype).view(shape)

    def run(self, rows: Sequence[Row]) -> dict[int, int]:
        """Computes the rows' K and V and returns the sampled token by request key."""
        rows = _attention_order(rows)
        sampled = [row for row in rows if row.samples]
        with torch.inference_mode():
            logits = self._model.forward(self._batch(rows), self._pools)
            tokens = sample(logits, [_row_params(row) for row in sampled]) if sampled else []
        return {row.request.key: token for row, token in zip(sampled, tokens, strict=True)}

    def _batch(self, rows: Sequence[Row]) -> ForwardBatch:
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        sample_rows: list[int] = []
        for row in rows:
            end = row.start + row.count
            token_ids += row.request.tokens[row.start : end]
            positions += range(row.start, end)
            blocks = row.request.blocks
            slots += [blocks[p // BLOCK_TOKENS] * BLOCK_TOKENS + p % BLOCK_TOKENS for p in range(row.start, end)]
            if row.samples:
                sample_rows.append(len(token_ids) - 1)
        return ForwardBatch(
            token_ids=_indices(token_ids),
            positions=_indices(positions),
            slots=_indices(slots),
            sample_rows=_indices(sample_rows),
            attention=self._attention(rows),
        )

    def _attention(self, rows: Sequence[Row]) -> AttentionPlan:
        decodes = [row for row in rows if row.count == 1]
        tables = [row.request.blocks for row in decodes]
        lengths = [row.start + 1 for row in decodes]
        prefills = []
        first = len(decodes)
        for row in rows[len(decodes) :]:
            prefills.append(self._chunk(first, row))
            first += row.count
        return AttentionPlan(plan_decodes(tables, lengths, BLOCK_TOKENS, self.dtype), tuple(prefills))

    def _chunk(self, first: int, row: Row) -> PrefillChunk:
        return plan_prefill(
            first,
            table=row.request.blocks,
            first_position=row.start,
            count=row.count,
            block_size=BLOCK_TOKENS,
            dtype=self.dtype,
        )


def _attention_order(rows: Sequence[Row]) -> list[Row]:
    """Single tokens first, longest context first, as the attention plan groups them; then the chunks."""
    return sorted(rows, key=lambda row: (row.count > 1, -row.start))


def _row_params(row: Row) -> RowParams:
    request, params = row.request, row.request.params
    return RowParams(params.temperature, params.top_k, params.top_p, uniform(request.seed, request.num_output))


def _indices(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)
