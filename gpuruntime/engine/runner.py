"""Turns scheduled rows into one batch, runs it and samples; knows no policy and no device."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gpuruntime.backend import TokenLogprob
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Executor, Ints, StepBatch
from gpuruntime.engine.scheduler import Row
from gpuruntime.sampling.logprobs import prompt_logprobs
from gpuruntime.sampling.row import Picked, SampleRow, is_plain_greedy, penalizes
from gpuruntime.sampling.sampler import sample, uniform


class RowResult(NamedTuple):
    """What a row produced: the drafts that were right and the token after them; nothing of a row that only prefills.

    ``logprobs``: one entry a token, where asked for. ``scores``: the chunk's prompt log probabilities likewise.
    """

    tokens: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    scores: Sequence[TokenLogprob] = ()


NOTHING = RowResult()
_NO_BLOCK = array("i", [0])


class ModelRunner:
    """Runs rows on an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def run(self, rows: Sequence[Row]) -> list[RowResult]:
        """Computes the rows' K and V; one result for each row."""
        batch = make_batch(rows)
        wanted = [row.wanted for row in rows]
        spans = [range(end - count, end) for end, count in zip(accumulate(wanted), wanted, strict=True)]
        if all(_is_plain(row) for row in rows):
            picks = self._executor.launch(batch).tokens()
            return [_accept(row, picks[span.start : span.stop]) for row, span in zip(rows, spans, strict=True)]
        logits = self._executor.logits(batch)
        scores = [_scores(row, logits[span.start : span.stop]) for row, span in zip(rows, spans, strict=True)]
        return [
            _picked(row, found, chunk)
            for row, found, chunk in zip(rows, _sample(logits, rows, spans), scores, strict=True)
        ]


def make_batch(rows: Sequence[Row]) -> StepBatch:
    """The rows one after another, each with its drafts behind it, and the logits of the last ``wanted`` tokens.

    Without numpy but for the views at the end: after a step that read all weights the processor's caches hold nothing
    of us, and each function of numpy that is called has to come from memory first.
    """
    begins = [0, *accumulate(row.size for row in rows)]
    used = [-(-(row.start + row.size) // BLOCK_TOKENS) for row in rows]
    width = max(used)
    tokens, tables, picked = array("i"), array("i"), array("i")
    for row, count, end in zip(rows, used, begins[1:], strict=True):
        tokens.extend(row.request.tokens[row.start : row.start + row.count])
        tokens.extend(row.drafts)
        tables.extend(row.request.table[:count])
        tables.extend(_NO_BLOCK * (width - count))
        picked.extend(range(end - row.wanted, end))
    return StepBatch(
        token_ids=_ints(tokens),
        begins=_ints(array("i", begins)),
        positions=_ints(array("i", [row.start for row in rows])),
        tables=_ints(tables).reshape(len(rows), width),
        logits_rows=_ints(picked),
    )


def _ints(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int32)


def _is_plain(row: Row) -> bool:
    return not row.request.scores_prompt and is_plain_greedy(row.request.params, _banned(row, 0))


def _accept(row: Row, picks: Sequence[int]) -> RowResult:
    """The drafts that equal what the model picks at their place, and its pick behind the last of them."""
    if not row.samples:
        return NOTHING
    if not row.drafts:
        return RowResult(picks)
    right = 0
    while right < len(row.drafts) and row.drafts[right] == picks[right]:
        right += 1
    return RowResult(picks[: right + 1])


def _picked(row: Row, picks: Sequence[Picked], scores: Sequence[TokenLogprob]) -> RowResult:
    tokens = _accept(row, [pick.token for pick in picks]).tokens
    logprobs = [pick.logprob for pick in picks[: len(tokens)] if pick.logprob is not None]
    return RowResult(tokens, logprobs, scores)


def _sample(logits: Tensor, rows: Sequence[Row], spans: Sequence[range]) -> Iterator[list[Picked]]:
    """Each row's picks: of the places behind its last token and its drafts, in their order."""
    places = [span[-1 - len(row.drafts) :] if row.samples else span[:0] for row, span in zip(rows, spans, strict=True)]
    chosen = [place for row_places in places for place in row_places]
    asked = [_sample_row(row, index) for row, own in zip(rows, places, strict=True) for index in range(len(own))]
    picks = iter(sample(logits if len(chosen) == len(logits) else logits[chosen], asked) if asked else ())
    return (list(islice(picks, len(own))) for own in places)


def _scores(row: Row, logits: Tensor) -> Sequence[TokenLogprob]:
    """The log probabilities of the prompt's tokens that follow those of this chunk, where they are asked for."""
    request, count = row.request, row.request.params.prompt_logprobs
    if count is None or not request.scores_prompt:
        return ()
    targets = request.tokens[row.start + 1 : min(row.start + 1 + row.count, request.prompt_len)]
    return prompt_logprobs(logits[: len(targets)], targets, count)


def _sample_row(row: Row, index: int) -> SampleRow:
    """How the token behind ``index`` drafts is picked; its uniform number is that place's own, with or without them."""
    request = row.request
    number = uniform(request.seed, request.num_output + index)
    if not penalizes(request.params):
        return SampleRow(request.params, number, banned=_banned(row, index))
    output = request.tokens[request.prompt_len :] + list(row.drafts[:index])
    return SampleRow(request.params, number, request.prompt_ids, output, _banned(row, index))


def _banned(row: Row, index: int) -> tuple[int, ...]:
    request, least = row.request, row.request.params.min_tokens
    return tuple(request.end_ids) if least and request.num_output + index < least else ()
