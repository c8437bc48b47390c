"""Turns scheduled rows into one batch, runs it and samples; knows no policy and no device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuruntime.backend import TokenLogprob
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Executor, StepBatch
from gpuruntime.engine.scheduler import Row
from gpuruntime.sampling.sampler import SampleRow, sample, uniform


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a row produced: its next token, more where drafts were right; ``logprobs`` as many, or none."""

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


class ModelRunner:
    """Runs rows on an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def run(self, rows: Sequence[Row]) -> dict[int, RowResult]:
        """Computes the rows' K and V; the results of those that sample, by request key."""
        sampled = [row for row in rows if row.samples]
        batch = make_batch(rows)
        if all(row.request.params.temperature == 0 for row in sampled):
            tokens = self._executor.greedy(batch)
        else:
            tokens = sample(self._executor.logits(batch), [_sample_row(row) for row in sampled])
        return {row.request.key: RowResult((token,)) for row, token in zip(sampled, tokens, strict=True)}


def make_batch(rows: Sequence[Row]) -> StepBatch:
    """The rows one after another, with the logits of each sampled row's last token."""
    begins = np.zeros(len(rows) + 1, dtype=np.int32)
    begins[1:] = np.cumsum([row.count for row in rows])
    tokens: list[int] = []
    for row in rows:
        tokens += row.request.tokens[row.start : row.start + row.count]
    used = [-(-(row.start + row.count) // BLOCK_TOKENS) for row in rows]
    tables = np.zeros((len(rows), max(used)), dtype=np.int32)
    for index, row in enumerate(rows):
        tables[index, : used[index]] = row.request.blocks[: used[index]]
    return StepBatch(
        token_ids=np.array(tokens, dtype=np.int32),
        begins=begins,
        positions=np.array([row.start for row in rows], dtype=np.int32),
        tables=tables,
        logits_rows=np.array([begins[i + 1] - 1 for i, row in enumerate(rows) if row.samples], dtype=np.int32),
    )


def _sample_row(row: Row) -> SampleRow:
    request = row.request
    return SampleRow(request.params, uniform(request.seed, request.num_output))
