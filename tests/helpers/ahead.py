"""Executors for running a step ahead: one whose every token depends on all it reads, and one that answers late."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.core import EngineCore, Feature
from gpuruntime.engine.executor import Draws, Executor, Known, Picks, StepBatch
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.roofline import ModelShape
from helpers.engine import Engine

VOCAB = 17
Scores = NDArray[np.float64]


def cell(token: int, before: tuple[int, ...]) -> int:
    """What stands for K and V of a token behind those of its context: another context gives another number."""
    return hash((token, len(before), before))


def scores(context: tuple[int, ...]) -> Scores:
    """The logits behind a context: whole numbers, so that no rounding decides."""
    return np.array([float(hash((context, token)) % 10007) for token in range(VOCAB)])


def noise(seed: int, step: int) -> Scores:
    return np.array([float(hash((seed, step, token)) % 10007) for token in range(VOCAB)])


def cells_of(tokens: Sequence[int]) -> tuple[int, ...]:
    found: tuple[int, ...] = ()
    for token in tokens:
        found = (*found, cell(token, found))
    return found


def oracle(prompt: Sequence[int], params: SamplingParams, end_ids: Sequence[int]) -> list[int]:
    """The answer to one request by definition, without blocks, batches or steps."""
    output: list[int] = []
    while len(output) < params.max_tokens:
        logits = scores(cells_of([*prompt, *output]))
        if params.temperature > 0:
            logits = logits + params.temperature * noise(params.seed or 0, len(output))
        for token in set(output):
            logits[token] -= params.presence_penalty
        if len(output) < params.min_tokens:
            logits[list(end_ids)] = -math.inf
        output.append(int(logits.argmax()))
        if output[-1] in end_ids:
            break
    return output


class Device:
    """Implements ``engine.executor.Executor``. Its memory keeps what was written, whoever holds the block now."""

    name = "simulated"
    weights_bytes = 0
    runs_ahead = False
    draws = True

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.memory = [0] * (num_blocks * BLOCK_TOKENS)
        self.rows: list[int] = []  # of each step

    def probe(self) -> Any:
        raise NotImplementedError

    def set_threads(self, count: int) -> None: ...

    def logits(self, batch: StepBatch) -> Tensor:
        return torch.tensor(np.array(self._scores(batch)).reshape(-1, VOCAB), dtype=torch.float32)

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        found = self._scores(batch)
        if draws is not None:
            given = zip(found, draws.temperatures, draws.seeds, draws.steps, strict=True)
            found = [logits + float(heat) * noise(int(seed), int(step)) for logits, heat, seed, step in given]
        return Known([int(logits.argmax()) for logits in found])

    def _scores(self, batch: StepBatch) -> list[Scores]:
        self.rows.append(len(batch.positions))
        contexts = []
        wanted = set(batch.logits_rows.tolist())
        for row, table in enumerate(batch.tables.tolist()):
            first = int(batch.positions[row]) - int(batch.begins[row])
            for token in range(batch.begins[row], batch.begins[row + 1]):
                slots = [table[p // BLOCK_TOKENS] * BLOCK_TOKENS + p % BLOCK_TOKENS for p in range(first + token + 1)]
                before = tuple(self.memory[slot] for slot in slots[:-1])
                self.memory[slots[-1]] = cell(int(batch.token_ids[token]), before)
                if token in wanted:
                    contexts.append((*before, self.memory[slots[-1]]))
        return [scores(context) for context in contexts]


class Late:
    """The picks of a launch that ``Delayed`` computes when they are asked for."""

    def __init__(self, owner: Delayed, batch: StepBatch, draws: Draws | None) -> None:
        self._owner = owner
        self.batch, self.draws = batch, draws
        self.found: list[int] | None = None

    def tokens(self) -> list[int]:
        self._owner.compute(self)
        assert self.found is not None
        return self.found


class Delayed:
    """Stands before an executor as a GPU's queue would: a launch is computed, in turn, when its picks are read."""

    runs_ahead = True

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.launches = 0
        self.most_waiting = 0
        self._queue: deque[Late] = deque()
        self._before: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Picks:
        late = Late(self, batch, draws)
        self._queue.append(late)
        self.launches += 1
        self.most_waiting = max(self.most_waiting, len(self._queue))
        return late

    def logits(self, batch: StepBatch) -> Tensor:
        assert not self._queue, "the host's sampler would not know the texts"
        assert batch.token_ids.min() >= 0
        return self.inner.logits(batch)

    def compute(self, until: Late) -> None:
        while until.found is None:
            late = self._queue.popleft()
            ids = [self._before[~token] if token < 0 else token for token in late.batch.token_ids.tolist()]
            batch = replace(late.batch, token_ids=np.array(ids, dtype=np.int32))
            self._before = late.found = self.inner.launch(batch, late.draws).tokens()


@dataclass
class Hand:
    """A clock that is moved by hand."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def make_simulated(
    blocks: int, *, ahead: bool, max_seqs: int, max_tokens: int, clock: Hand, features: Sequence[Feature] = ()
) -> tuple[Engine, Device]:
    """An engine over a simulated device."""
    device = Device(blocks)
    executor: Any = Delayed(device) if ahead else device
    shape = ModelShape(parameters=1000, weight_bytes=1000, kv_bytes_per_token=10, attention_flops=10)
    ledger = Ledger(shape, kv_capacity_tokens=blocks * BLOCK_TOKENS, max_seqs=max_seqs)
    core = EngineCore(
        ModelRunner(executor),
        ledger,
        max_seqs=max_seqs,
        max_tokens=max_tokens,
        num_blocks=blocks,
        cache=True,
        features=features,
        clock=clock,
    )
    return Engine(core, executor, clock), device
