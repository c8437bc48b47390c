"""One decode step beside the time its bytes need: ``python -m benchmarks.common.decode_step DTYPE MODEL``.

One process measures both in turns, because on a shared machine the memory's speed changes from minute to minute.
Prints ``{"name": executor, "batches": {batch: [{"ms", "floor_ms"}, one a round]}}``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.bandwidth import Reader
from benchmarks.common.executor import Loaded, load_executor, make_step, own_blocks, shape_of, step_bytes
from benchmarks.common.report import median

CONTEXT = 300
BATCHES = (1, 8, 32)
STEPS = 20
ROUNDS = 5
_ROOM = CONTEXT + 1


def main(dtype: str, model: str) -> None:
    loaded = load_executor(Path(model), dtype, kv_tokens=max(BATCHES) * (_ROOM + 16), max_model_len=1024)
    shape = shape_of(loaded.model, dtype)
    _fill(loaded)
    reader = Reader()
    reader.bytes_per_s()
    batches: dict[int, list[dict[str, float]]] = {batch: [] for batch in BATCHES}
    for _ in range(ROUNDS):
        for batch, rounds in batches.items():
            rate = median([reader.bytes_per_s() for _ in range(2)])
            floor_s = step_bytes(shape, batch, _ROOM) / rate
            rounds.append({"ms": 1000 * _step_s(loaded, batch), "floor_ms": 1000 * floor_s})
    result: dict[str, Any] = {"name": loaded.executor.name, "batches": batches}
    print(json.dumps(result))


def _fill(loaded: Loaded) -> None:
    """Random prompts in every row's blocks, so that attention reads what real requests leave."""
    random = np.random.default_rng(1)
    for row in range(max(BATCHES)):
        prompt = random.integers(100, loaded.model.vocab_size, CONTEXT).tolist()
        loaded.executor.greedy(make_step([(prompt, 0, own_blocks(row, _ROOM))]))


def _step_s(loaded: Loaded, batch: int) -> float:
    """The median of ``STEPS`` steps that each decode one token a row at the same position."""
    step = make_step([([1000 + row], CONTEXT, own_blocks(row, _ROOM)) for row in range(batch)])
    loaded.executor.greedy(step)
    took = []
    for _ in range(STEPS):
        began = time.perf_counter()
        loaded.executor.greedy(step)
        took.append(time.perf_counter() - began)
    return median(took)


if __name__ == "__main__":
    main(*sys.argv[1:3])
