"""Turns scheduled rows into one batch, runs it and samples; knows no policy and no device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuruntime.backend import TokenLogprob
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Executor, Ints, StepBatch
from gpuruntime.engine.scheduler import Row
from gpuruntime.sampling.sampler import SampleRow, sample, uniform


class RowResult(NamedTuple):
    """What a row produced: the drafts that were right and the token after them; nothing of a row that only prefills.

    ``logprobs``: one entry a token, where asked for. ``scores``: the chunk's prompt log probabilities likewise.
    """

    tokens: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    scores: Sequence[TokenLogprob] = ()


NOTHING = RowResult()


class ModelRunner:
    """Runs rows on an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def run(self, rows: Sequence[Row]) -> list[RowResult]:
        """Computes the rows' K and V; one result for each row."""
        batch = make_batch(rows)
        if all(row.request.params.temperature == 0 for row in rows):
            picks = self._executor.greedy(batch)
        else:
            asked = [_sample_row(row, index) for row in rows for index in range(row.wanted)]
            picks = sample(self._executor.logits(batch), asked)
        results, first = [], 0
        for row in rows:
            results.append(_accept(row, picks[first : first + row.wanted]))
            first += row.wanted
        return results


def make_batch(rows: Sequence[Row]) -> StepBatch:
    """The rows one after another, each with its drafts behind it, and the logits of the last ``wanted`` tokens."""
    sizes = np.array([row.size for row in rows], dtype=np.int32)
    begins = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(sizes, out=begins[1:])
    positions = np.array([row.start for row in rows], dtype=np.int32)
    tokens: list[int] = []
    for row in rows:
        tokens += row.request.tokens[row.start : row.start + row.count]
        tokens += row.drafts
    used = (-(-(positions + sizes) // BLOCK_TOKENS)).tolist()
    tables = np.zeros((len(rows), max(used)), dtype=np.int32)
    for table, width, row in zip(tables, used, rows, strict=True):
        table[:width] = row.request.table[:width]
    wanted = np.array([row.wanted for row in rows], dtype=np.int32)
    return StepBatch(
        token_ids=np.array(tokens, dtype=np.int32),
        begins=begins,
        positions=positions,
        tables=tables,
        logits_rows=_last_of_each(begins[1:], wanted),
    )


def _last_of_each(ends: Ints, wanted: Ints) -> Ints:
    """The indexes ``end - wanted .. end - 1`` of each row, one row after another."""
    total = np.cumsum(wanted, dtype=np.int32)
    return np.arange(wanted.sum(), dtype=np.int32) + np.repeat(ends - total, wanted)


def _accept(row: Row, picks: Sequence[int]) -> RowResult:
    """The drafts that equal what the model picks at their place, and its pick behind the last of them."""
    if not row.samples:
        return NOTHING
    right = 0
    while right < len(row.drafts) and row.drafts[right] == picks[right]:
        right += 1
    return RowResult(picks[: right + 1])


def _sample_row(row: Row, index: int) -> SampleRow:
    request = row.request
    return SampleRow(request.params, uniform(request.seed, request.num_output + index))
