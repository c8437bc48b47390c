"""One decode step beside the time its bytes need: ``python -m benchmarks.common.decode_step DTYPE MODEL``.

One process measures both in turns, because on a shared machine the memory's speed changes from minute to minute.
Prints ``{"name": executor, "batches": {batch: [{"ms", "floor_ms", "python_ms"}, one a round]}, "phases_ms": {batch:
{phase: ms}}}``: ``python_ms`` is what the engine's own step takes beside the executor's call, and the phases are there
where the executor tells them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.executor import Loaded, load_executor, make_step, own_blocks, shape_of, step_bytes
from benchmarks.common.report import median
from gpuruntime.backend import SamplingParams
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Draws, Known, StepBatch
from gpuruntime.kernels.native.rates import NativeProbe, written_memory

CONTEXT = 300
BATCHES = (1, 8, 32)
STEPS = 20
ROUNDS = 5
READ_BYTES = 1 << 30  # more than any last-level cache: a model that fits in it may beat the floor, and is shown to
_ROOM = CONTEXT + 1


def main(dtype: str, model: str) -> None:
    loaded = load_executor(Path(model), dtype, kv_tokens=max(BATCHES) * (_ROOM + BLOCK_TOKENS), max_model_len=1024)
    shape = shape_of(loaded.model, dtype)
    _fill(loaded)
    reader = NativeProbe(loaded.config.resolved_threads, written_memory(READ_BYTES), int8=dtype == "int8")
    reader.bytes_per_s()
    batches: dict[int, list[dict[str, float]]] = {batch: [] for batch in BATCHES}
    phases: dict[int, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for batch, rounds in batches.items():
            rate = median([reader.bytes_per_s() for _ in range(2)])
            floor_s = step_bytes(shape, batch, _ROOM) / rate
            before = _phases(loaded)
            step_s = _step_s(loaded, batch)
            phases[batch] = {name: 1000 * (s - before[name]) / (STEPS + 1) for name, s in _phases(loaded).items()}
            rounds.append({"ms": 1000 * step_s, "floor_ms": 1000 * floor_s})
    for batch, rounds in batches.items():
        for measured in rounds:
            measured["python_ms"] = 1000 * _python_s(loaded, batch)
    print(json.dumps({"name": loaded.executor.name, "batches": batches, "phases_ms": phases}))


def _fill(loaded: Loaded) -> None:
    """Random prompts in every row's blocks, so that attention reads what real requests leave."""
    random = np.random.default_rng(1)
    for row in range(max(BATCHES)):
        prompt = random.integers(100, loaded.model.vocab_size, CONTEXT).tolist()
        loaded.executor.launch(make_step([(prompt, 0, own_blocks(row, _ROOM))])).tokens()


def _step_s(loaded: Loaded, batch: int) -> float:
    """The median of ``STEPS`` steps, after one more, that each decode one token a row at the same position."""
    step = make_step([([1000 + row], CONTEXT, own_blocks(row, _ROOM)) for row in range(batch)])
    loaded.executor.launch(step).tokens()
    took = []
    for _ in range(STEPS):
        began = time.perf_counter()
        loaded.executor.launch(step).tokens()
        took.append(time.perf_counter() - began)
    return median(took)


def _phases(loaded: Loaded) -> dict[str, float]:
    """Seconds by phase since the executor began; empty of one that does not tell."""
    tell = getattr(loaded.executor, "seconds", None)
    return dict(tell()) if tell is not None else {}


class _Timed:
    """Stands before an executor and adds up how long its calls took."""

    runs_ahead = draws = False

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.took_s = 0.0

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        began = time.perf_counter()
        picks: list[int] = self._executor.launch(batch, draws).tokens()
        self.took_s += time.perf_counter() - began
        return Known(picks)


def _python_s(loaded: Loaded, batch: int) -> float:
    """The median over ``STEPS`` of the engine's own step, all rows decoding, less the executor's call."""
    from gpuruntime.engine.core import EngineCore
    from gpuruntime.engine.ledger import Ledger
    from gpuruntime.engine.request import Clock, Request
    from gpuruntime.engine.runner import ModelRunner

    timed: Any = _Timed(loaded.executor)
    blocks = loaded.executor.num_blocks
    ledger = Ledger(shape_of(loaded.model, "bf16"), kv_capacity_tokens=blocks * BLOCK_TOKENS, max_seqs=64)
    core = EngineCore(ModelRunner(timed), ledger, max_seqs=64, max_tokens=512, num_blocks=blocks, cache=True)
    params = SamplingParams(max_tokens=4 * STEPS, temperature=0.0, ignore_eos=True)
    for key in range(batch):
        prompt = list(range(1000 + key, 1008 + key))
        core.add(Request(key, len(prompt), prompt, params, 0, b"", frozenset(), Clock(time.monotonic())))
    core.step()
    took = []
    for _ in range(STEPS):
        before_s, began = timed.took_s, time.perf_counter()
        core.step()
        took.append(time.perf_counter() - began - (timed.took_s - before_s))
    return median(took)


if __name__ == "__main__":
    main(*sys.argv[1:3])
