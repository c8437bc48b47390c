"""The C++ step behind the executor's interface: one call computes embedding, layers, head and the greedy pick."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import Draws, Known, StepBatch
from gpuruntime.engine.native_weights import NativeWeights
from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.memory import huge_memory, make_resident
from gpuruntime.kernels.native.rates import NativeProbe
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig


class NativeExecutor:
    """Implements ``engine.executor.Executor``. ``max_len``: the longest context in tokens.

    Raises ``kernels.native.build.NoCompiler`` where the library is not there and cannot be built, and ``ValueError``
    for files or settings.
    """

    runs_ahead = draws = False

    def __init__(self, config: EngineConfig, model_config: ModelConfig, max_len: int) -> None:
        self._library = library.library()
        self._vocab_size, self._hidden_size = model_config.vocab_size, model_config.hidden_size
        self._threads = self._most_threads = config.resolved_threads
        self._int8 = config.dtype == "int8"
        kv_bits = 8 if config.kv_dtype == "int8" else 16
        one = int(self._library.berth_kv_block_bytes(model_config.head_dim, kv_bits))
        block_bytes = model_config.num_layers * model_config.num_kv_heads * one
        self.num_blocks = config.kv_bytes // block_bytes
        if self.num_blocks == 0:
            raise ValueError(f"kv_bytes {config.kv_bytes}: one block of {BLOCK_TOKENS} tokens takes {block_bytes}")
        source = WeightSource(config.model_path, torch.float32 if config.dtype == "int8" else torch.bfloat16)
        self._weights = NativeWeights(source, model_config, max_len, int8=self._int8)
        self.weights_bytes = self._weights.nbytes
        self._memory = huge_memory(self.num_blocks * block_bytes)
        model = self._weights.model
        model.kv = self._memory.ctypes.data
        model.num_blocks, model.kv_bits = self.num_blocks, kv_bits
        self._step = self._library.berth_create(ctypes.byref(model), self._threads)
        self._logits = torch.empty(0, self._vocab_size)
        self._warm_up(min(config.max_num_batched_tokens, max_len, self.num_blocks * BLOCK_TOKENS))
        # It is this replica's by placement, and pages granted under a request would hold that up. Beside the first
        # requests: all of a large cache takes seconds.
        make_resident(self._memory)

    def __del__(self) -> None:
        if hasattr(self, "_step"):
            self._library.berth_destroy(self._step)

    @property
    def name(self) -> str:
        return f"native ({'AMX' if self._library.berth_amx(self._step) else 'vectors'})"

    def probe(self) -> NativeProbe:
        return NativeProbe(self._most_threads, self._weights.largest, int8=self._int8)

    def set_threads(self, count: int) -> None:
        self._threads = count

    def use_amx(self, wanted: bool) -> None:
        """Switches the tile instructions off, and on again where the machine has them; the results are the same."""
        self._library.berth_use_amx(self._step, wanted)

    def logits(self, batch: StepBatch) -> Tensor:
        wanted = len(batch.logits_rows)
        if self._logits.shape[0] < wanted:
            self._logits = torch.empty(wanted, self._vocab_size)
        self._run(batch, logits=self._logits.data_ptr())
        return self._logits[:wanted]

    def states(self, batch: StepBatch) -> Tensor:
        states = torch.empty(len(batch.logits_rows), self._hidden_size)
        self._run(batch, states=states.data_ptr())
        return self._weights.plain_states(states)

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        picks = np.empty(len(batch.logits_rows), dtype=np.int32)
        if not self._run(batch, picks=picks.ctypes.data):
            raise FloatingPointError("the model produced logits that are not finite")
        return Known(picks.tolist())

    def seconds(self) -> dict[str, float]:
        """Where the steps' time went since the start, in seconds by phase."""
        found = self._library.berth_seconds(self._step)
        return {name: found[index] for index, name in enumerate(library.PHASES)}

    def _warm_up(self, tokens: int) -> None:
        """Touches buffers, weights and first blocks: else the first request waits some 0.3 s for their pages."""
        begins, first = np.array([0, tokens], dtype=np.int32), np.zeros(1, dtype=np.int32)
        table = np.arange(-(-tokens // BLOCK_TOKENS), dtype=np.int32).reshape(1, -1)
        batch = StepBatch(np.zeros(tokens, dtype=np.int32), begins, first, table, begins[1:] - 1)
        picks = np.empty(1, dtype=np.int32)
        self._run(batch, picks=picks.ctypes.data)

    def _run(
        self, batch: StepBatch, *, logits: int | None = None, states: int | None = None, picks: int | None = None
    ) -> bool:
        """True when all logits are finite. The call releases the interpreter's lock while it computes."""
        arrays = (batch.token_ids, batch.begins, batch.positions, batch.tables, batch.logits_rows)
        plain = library.Batch(
            *(array.ctypes.data for array in arrays),
            logits,
            states,
            picks,
            len(batch.token_ids),
            len(batch.positions),
            batch.tables.shape[1],
            len(batch.logits_rows),
        )
        return bool(self._library.berth_step(self._step, ctypes.byref(plain), self._threads) == 0)
