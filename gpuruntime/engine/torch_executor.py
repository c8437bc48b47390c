"""Every family in PyTorch: the path of the CPU without a compiler, of what the C++ step does not cover, and of fp32."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import StepBatch
from gpuruntime.kernels.paged_attention import AttentionPlan, PrefillChunk, plan_decodes, plan_prefill
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.registry import build_model

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class TorchExecutor:
    """Implements ``engine.executor.Executor``. ``max_len``: the longest context in tokens."""

    name = "PyTorch"

    def __init__(self, config: EngineConfig, model_config: ModelConfig, max_len: int) -> None:
        self._dtype = DTYPES[config.dtype]
        self._model = build_model(model_config, WeightSource(config.model_path, self._dtype), max_len)
        self.weights_bytes = self._model.nbytes
        block_bytes = model_config.kv_bytes_per_token(self._dtype.itemsize) * BLOCK_TOKENS
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
        self._pools = torch.from_numpy(memory).view(self._dtype).view(shape)

    def logits(self, batch: StepBatch) -> Tensor:
        order = _attention_order(batch)
        with torch.inference_mode():
            logits: Tensor = self._model.forward(self._forward_batch(batch, order), self._pools)
        return logits

    def greedy(self, batch: StepBatch) -> list[int]:
        best, ids = self.logits(batch).max(dim=-1)
        if not bool(torch.isfinite(best).all()):
            raise FloatingPointError("the model produced logits that are not finite")
        result: list[int] = ids.tolist()
        return result

    def _forward_batch(self, batch: StepBatch, order: list[int]) -> ForwardBatch:
        """The batch with its rows in the attention plan's order; the wanted logits keep theirs."""
        spans = [np.arange(batch.begins[row], batch.begins[row + 1]) for row in order]
        tokens = np.concatenate(spans)
        rows = np.repeat(order, [len(span) for span in spans])
        offsets = tokens - batch.begins[rows] + batch.positions[rows]
        slots = batch.tables[rows, offsets // BLOCK_TOKENS].astype(np.int64) * BLOCK_TOKENS + offsets % BLOCK_TOKENS
        places = np.empty_like(tokens)
        places[tokens] = np.arange(len(tokens))
        return ForwardBatch(
            token_ids=torch.from_numpy(batch.token_ids[tokens].astype(np.int64)),
            positions=torch.from_numpy(offsets.astype(np.int64)),
            slots=torch.from_numpy(slots),
            sample_rows=torch.from_numpy(places[batch.logits_rows].astype(np.int64)),
            attention=self._attention(batch, order),
        )

    def _attention(self, batch: StepBatch, order: list[int]) -> AttentionPlan:
        counts = np.diff(batch.begins)
        decodes = [row for row in order if counts[row] == 1]
        tables = [batch.tables[row].tolist() for row in decodes]
        lengths = [int(batch.positions[row]) + 1 for row in decodes]
        prefills = []
        first = len(decodes)
        for row in order[len(decodes) :]:
            prefills.append(self._chunk(first, batch, row, int(counts[row])))
            first += int(counts[row])
        return AttentionPlan(plan_decodes(tables, lengths, BLOCK_TOKENS, self._dtype), tuple(prefills))

    def _chunk(self, first: int, batch: StepBatch, row: int, count: int) -> PrefillChunk:
        return plan_prefill(
            first,
            table=batch.tables[row].tolist(),
            first_position=int(batch.positions[row]),
            count=count,
            block_size=BLOCK_TOKENS,
            dtype=self._dtype,
        )


def _attention_order(batch: StepBatch) -> list[int]:
    """Rows of a single token first, longest context first, as the attention plan groups them; then the chunks."""
    counts = np.diff(batch.begins)
    return sorted(range(len(counts)), key=lambda row: (counts[row] > 1, -batch.positions[row]))
