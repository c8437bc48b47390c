"""Logit bias, penalties, banned ids and grammars: the changes made to logits before a token is picked.

Only the touched ids are read and written; but for a grammar no array of the vocabulary's width is built.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuruntime.sampling.row import SampleRow, penalizes

LARGEST = float(np.finfo(np.float32).max)


def adjusts(row: SampleRow) -> bool:
    """Whether ``adjust`` would change anything of the row."""
    return bool(row.params.logit_bias) or bool(row.banned) or row.allowed is not None or penalizes(row.params)


def adjust(logits: NDArray[np.float32], rows: Sequence[SampleRow]) -> None:
    """Changes fp32 ``logits [R, vocab]`` in place: bias, then penalties; what cannot come ends at minus infinity."""
    for line, row in zip(logits, rows, strict=True):
        if row.params.logit_bias:
            _bias(line, row)
        if row.params.repetition_penalty != 1:
            _penalize_repetition(line, row)
        if row.params.presence_penalty != 0 or row.params.frequency_penalty != 0:
            _penalize_output(line, row)
        _ban(line, row)


def _bias(line: NDArray[np.float32], row: SampleRow) -> None:
    ids, values = zip(*row.params.logit_bias, strict=True)
    np.add.at(line, np.array(ids), np.array(values, dtype=np.float32))


def _penalize_repetition(line: NDArray[np.float32], row: SampleRow) -> None:
    """CTRL's (arXiv 1909.05858), as transformers reads it: positive logits are divided, negative ones multiplied.

    An id that occurs twice is computed twice to the same value.
    """
    penalty = row.params.repetition_penalty
    ids = np.concatenate((np.asarray(row.prompt, dtype=np.int64), np.asarray(row.output, dtype=np.int64)))
    values = line[ids].astype(np.float64)
    line[ids] = _finite(np.where(values > 0, values / penalty, values * penalty))


def _penalize_output(line: NDArray[np.float32], row: SampleRow) -> None:
    """OpenAI's: once for having occurred in the output, and again for every occurrence."""
    ids, counts = np.unique(np.asarray(row.output, dtype=np.int64), return_counts=True)
    loss = row.params.presence_penalty + row.params.frequency_penalty * counts
    line[ids] = _finite(line[ids].astype(np.float64) - loss)


def _ban(line: NDArray[np.float32], row: SampleRow) -> None:
    """A ban of the whole vocabulary is no ban: one id has to be picked, and the others' requests must go on."""
    if row.allowed is not None:
        left = row.allowed.copy()
        left[list(row.banned)] = False
        line[~(left if left.any() else row.allowed)] = -np.inf
    elif len(row.banned) < len(line) or len(set(row.banned)) < len(line):
        line[list(row.banned)] = -np.inf


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Within fp32, where infinity would turn into NaN once the largest is subtracted."""
    return np.clip(values, -LARGEST, LARGEST)
