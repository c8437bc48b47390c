"""Every family in PyTorch: the path of the CPU without a compiler, of what the C++ step does not cover, and of fp32."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import Draws, Known, StepBatch
from gpuruntime.engine.torch_attention import TorchAttention
from gpuruntime.kernels.kv_memory import Int8Kv, PlainKv
from gpuruntime.kernels.paged_attention import AttentionPlan, View, plan_decodes, plan_prefill
from gpuruntime.kernels.rates import TorchProbe
from gpuruntime.kernels.torch_backend import TorchBackend
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Build
from gpuruntime.models.registry import build_model
from gpuruntime.parallel.group import Alone, Group
from gpuruntime.parallel.shard import rank_config

# Of activations, and of K and V where ``kv_dtype`` is "auto"; int8 and fp8 weights are multiplied with bf16.
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "int8": torch.bfloat16, "fp8": torch.bfloat16}
_SCALE_BYTES = 4


class TorchExecutor:
    """Implements ``engine.executor.Executor``. ``max_len``: the longest context in tokens.

    In a ``group`` it is one rank of the model, with its part of the weights and of ``kv_bytes``; every rank has to be
    called with the same batches.

    Raises ``ValueError`` for files, and where not even one KV block fits.
    """

    name = "PyTorch"
    runs_ahead = draws = False

    def __init__(
        self, config: EngineConfig, model_config: ModelConfig, max_len: int, group: Group | None = None
    ) -> None:
        group = group or Alone()
        own = rank_config(model_config, group.shard.size)
        self._dtype = DTYPES[config.dtype]
        self._threads = config.resolved_threads
        backend = TorchBackend(self._dtype, int8=config.dtype == "int8")
        self._model = build_model(Build(model_config, WeightSource(config.model_path, self._dtype), backend, group))
        self.weights_bytes = self._model.nbytes
        self._views = layer_views(config, model_config)
        block_bytes = BLOCK_TOKENS * kv_bytes_per_token(config, own) * group.shard.size
        self.num_blocks = config.kv_bytes // block_bytes
        if self.num_blocks == 0:
            raise ValueError(f"kv_bytes {config.kv_bytes}: one block of {BLOCK_TOKENS} tokens takes {block_bytes}")
        layout = Int8Kv if config.kv_dtype == "int8" else PlainKv
        kv_heads, head_dim = own.num_kv_heads, own.head_dim
        self._kv = [layout(self.num_blocks, BLOCK_TOKENS, kv_heads, head_dim, self._dtype) for _ in self._views]
        self._attention = TorchAttention(own, self._kv, max_len)

    def probe(self) -> TorchProbe:
        return TorchProbe(self._dtype, self._threads)

    @staticmethod
    def set_threads(count: int) -> None:
        torch.set_num_threads(count)

    def logits(self, batch: StepBatch) -> Tensor:
        with torch.inference_mode():
            return self._model.forward(self._forward_batch(batch, _attention_order(batch)))

    def states(self, batch: StepBatch) -> Tensor:
        with torch.inference_mode():
            return self._model.states(self._forward_batch(batch, _attention_order(batch))).float()

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        best, ids = self.logits(batch).max(dim=-1)
        if not bool(torch.isfinite(best).all()):
            raise FloatingPointError("the model produced logits that are not finite")
        return Known(ids.tolist())

    def _forward_batch(self, batch: StepBatch, order: list[int]) -> ForwardBatch:
        """The batch with its rows in the attention plan's order; the wanted logits keep theirs."""
        spans = [np.arange(batch.begins[row], batch.begins[row + 1]) for row in order]
        tokens = np.concatenate(spans)
        rows = np.repeat(order, [len(span) for span in spans])
        offsets = tokens - batch.begins[rows] + batch.positions[rows]
        slots = batch.tables[rows, offsets // BLOCK_TOKENS].astype(np.int64) * BLOCK_TOKENS + offsets % BLOCK_TOKENS
        places = np.empty_like(tokens)
        places[tokens] = np.arange(len(tokens))
        plans = {view: self._plan(view, batch, order) for view in set(self._views)}
        return ForwardBatch(
            token_ids=torch.from_numpy(batch.token_ids[tokens].astype(np.int64)),
            sample_rows=torch.from_numpy(places[batch.logits_rows].astype(np.int64)),
            attention=self._attention.step(
                torch.from_numpy(offsets.astype(np.int64)),
                torch.from_numpy(slots),
                [plans[view] for view in self._views],
            ),
        )

    def _plan(self, view: View, batch: StepBatch, order: list[int]) -> AttentionPlan:
        counts = np.diff(batch.begins)
        decodes = [row for row in order if counts[row] == 1]
        groups = plan_decodes(view, batch.tables[decodes], batch.positions[decodes], BLOCK_TOKENS, self._dtype)
        chunks = []
        start = len(decodes)
        for row in order[len(decodes) :]:
            table, first, count = batch.tables[row], int(batch.positions[row]), int(counts[row])
            chunk = plan_prefill(
                view, start, table=table, first=first, count=count, block_size=BLOCK_TOKENS, dtype=self._dtype
            )
            chunks.append(chunk)
            start += count
        return AttentionPlan(view, groups, tuple(chunks))


def layer_views(config: EngineConfig, model_config: ModelConfig) -> tuple[View, ...]:
    """What a token sees in each layer."""
    if config.attention_window is not None:
        return (View(config.attention_window, config.attention_sinks or 0),) * model_config.num_layers
    return tuple(View(window) for window in model_config.sliding_windows)


def kv_bytes_per_token(config: EngineConfig, model_config: ModelConfig) -> int:
    """Bytes of one token's K and V over all layers in the layout that ``kv_dtype`` names."""
    if config.kv_dtype in ("int8", "fp8"):
        return model_config.kv_bytes_per_token(1, _SCALE_BYTES)
    return model_config.kv_bytes_per_token(DTYPES[config.dtype].itemsize)


def _attention_order(batch: StepBatch) -> list[int]:
    """Rows of a single token first, longest context first, as the attention plan groups them; then the chunks."""
    counts = np.diff(batch.begins)
    return sorted(range(len(counts)), key=lambda row: (counts[row] > 1, -batch.positions[row]))
