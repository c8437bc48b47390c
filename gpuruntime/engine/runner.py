"""Turns scheduled rows into one batch, launches it and samples; knows no policy and no device."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.backend import TokenLogprob
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Draws, Executor, Ints, Picks, StepBatch
from gpuruntime.engine.scheduler import Row
from gpuruntime.sampling.logprobs import prompt_logprobs
from gpuruntime.sampling.row import Picked, Picking, SampleRow, penalizes
from gpuruntime.sampling.sampler import sample, uniform


class RowResult(NamedTuple):
    """What a row produced: the drafts that were right and the token after them; nothing of a row that only prefills.

    ``logprobs``: one entry a token, where asked for. ``scores``: the chunk's prompt log probabilities likewise.
    ``state``: ``[hidden]``, the sum of the chunk's states that an embedding is made of.
    """

    tokens: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    scores: Sequence[TokenLogprob] = ()
    state: NDArray[np.float64] | None = None


NOTHING = RowResult()
_NO_BLOCK = array("i", [0])
_MOST = 2**31 - 1


class PickedStep(NamedTuple):
    """A step whose tokens are picked where it is computed; ``settled``: it has been."""

    rows: Sequence[Row]
    picks: Picks
    settled: bool

    def results(self) -> list[RowResult]:
        picks, found, start = self.picks.tokens(), [], 0
        for row in self.rows:
            end = start + row.wanted
            found.append(_accept(row, picks[start:end]))
            start = end
        return found


class ReadStep(NamedTuple):
    """A step of which the host has read the logits."""

    found: list[RowResult]
    settled: bool = True

    def results(self) -> list[RowResult]:
        return self.found


class ModelRunner:
    """Runs rows on an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._most_there = Picking.DRAW if executor.draws else Picking.LARGEST
        self._before: Sequence[Row] = ()

    def reads(self, rows: Sequence[Row]) -> bool:
        """Whether picking for these rows takes their logits, and so every token of the steps before."""
        return max(map(_picking, rows)) > self._most_there

    def launch(self, rows: Sequence[Row]) -> PickedStep | ReadStep:
        """Starts to compute the rows' K and V and what follows from them."""
        if any(row.request.params.pooling is not None for row in rows):
            return ReadStep(self._pool(rows))
        kinds = [_picking(row) for row in rows]
        most = max(kinds)
        if most <= self._most_there:
            return self._pick(rows, draws=most is Picking.DRAW)
        if self._executor.draws and Picking.DRAW in kinds:
            return ReadStep(self._part(rows, kinds))
        return ReadStep(self._read(rows))

    def _pick(self, rows: Sequence[Row], *, draws: bool) -> PickedStep:
        batch = make_batch(rows, self._pending(rows))
        picks = self._executor.launch(batch, make_draws(rows) if draws else None)
        ahead = self._executor.runs_ahead
        self._before = rows if ahead else ()
        return PickedStep(rows, picks, settled=not ahead)

    def _part(self, rows: Sequence[Row], kinds: Sequence[Picking]) -> list[RowResult]:
        """In two steps: the device and the host draw other numbers, and a text must not depend on its company."""
        read = [row for row, kind in zip(rows, kinds, strict=True) if kind is Picking.READ]
        rest = [row for row, kind in zip(rows, kinds, strict=True) if kind is not Picking.READ]
        there, here = iter(self._pick(rest, draws=True).results()), iter(self._read(read))
        return [next(here if kind is Picking.READ else there) for kind in kinds]

    def _pool(self, rows: Sequence[Row]) -> list[RowResult]:
        """In two steps as well: embeddings need no head, which is a small model's largest part."""
        rest = [row for row in rows if row.request.params.pooling is None]
        others = iter(self.launch(rest).results() if rest else ())
        states = iter(self._states([row for row in rows if row.request.params.pooling is not None]))
        return [next(others if row.request.params.pooling is None else states) for row in rows]

    def _states(self, rows: Sequence[Row]) -> Iterator[RowResult]:
        states, start = self._executor.states(make_batch(rows)).double().numpy(), 0
        for row in rows:
            end = start + row.wanted
            yield RowResult(state=states[start:end].sum(axis=0) if row.wanted else None)
            start = end

    def _pending(self, rows: Sequence[Row]) -> dict[int, int]:
        """Where, among the picks of the launch before, the token of each request is that the host does not know."""
        if not self._before or not any(row.request.pending for row in rows):
            return {}
        return {row.request.key: place for place, row in enumerate(row for row in self._before if row.samples)}

    def _read(self, rows: Sequence[Row]) -> list[RowResult]:
        logits = self._executor.logits(make_batch(rows))
        wanted = [row.wanted for row in rows]
        spans = [range(end - count, end) for end, count in zip(accumulate(wanted), wanted, strict=True)]
        scores = [_scores(row, logits[span.start : span.stop]) for row, span in zip(rows, spans, strict=True)]
        return [
            _picked(row, found, chunk)
            for row, found, chunk in zip(rows, _sample(logits, rows, spans), scores, strict=True)
        ]


def make_batch(rows: Sequence[Row], pending: Mapping[int, int] = MappingProxyType({})) -> StepBatch:
    """The rows one after another, each with its drafts behind it, and the logits of the last ``wanted`` tokens.

    ``pending``: for the requests whose last token the host does not know, by key, its place in the picks before.

    Without numpy but for the views at the end: after a step that read all weights the processor's caches hold nothing
    of us, and each function of numpy that is called has to come from memory first.
    """
    sizes = [row.size for row in rows]
    begins = [0, *accumulate(sizes)]
    used = [-(-(row.start + size) // BLOCK_TOKENS) for row, size in zip(rows, sizes, strict=True)]
    width = max(used)
    tokens, tables, picked = array("i"), array("i"), array("i")
    for row, count, end in zip(rows, used, begins[1:], strict=True):
        known = row.request.tokens[row.start : row.start + row.count]
        tokens.extend(known or [~pending[row.request.key]])
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


def make_draws(rows: Sequence[Row]) -> Draws:
    """How the token behind each row and behind each of its drafts is sampled; the rows have not been launched."""
    places = [(row.request, index) for row in rows if row.samples for index in range(1 + len(row.drafts))]
    params = [request.params for request, _ in places]
    return Draws(
        temperatures=np.array([one.temperature for one in params], dtype=np.float32),
        top_ks=np.array([min(one.top_k, _MOST) for one in params], dtype=np.int32),
        top_ps=np.array([one.top_p for one in params], dtype=np.float32),
        min_ps=np.array([one.min_p for one in params], dtype=np.float32),
        seeds=np.array([request.seed for request, _ in places], dtype=np.uint64).view(np.int64),
        steps=np.array([request.num_output + request.pending + index for request, index in places], dtype=np.int32),
    )


def _ints(values: array[int]) -> Ints:
    return np.frombuffer(values, dtype=np.int32)


def _picking(row: Row) -> Picking:
    if row.request.scores_prompt or row.request.params.pooling is not None:
        return Picking.READ
    if not row.samples:
        return Picking.LARGEST  # of no logits at all
    # Guesses behind a place with bans must be drawn as they would be without the guesses: all of them on the host.
    if _banned(row, 0) or (row.request.picking is Picking.DRAW and row.request.params.min_tokens):
        return Picking.READ
    return row.request.picking


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
    asked = [
        _sample_row(row, index, allowed)
        for row, own in zip(rows, places, strict=True)
        if own
        for index, allowed in enumerate(_allowed(row))
    ]
    picks = iter(sample(logits if len(chosen) == len(logits) else logits[chosen], asked) if asked else ())
    return (list(islice(picks, len(own))) for own in places)


def _scores(row: Row, logits: Tensor) -> Sequence[TokenLogprob]:
    """The log probabilities of the prompt's tokens that follow those of this chunk, where they are asked for."""
    request, count = row.request, row.request.params.prompt_logprobs
    if count is None or not request.scores_prompt:
        return ()
    targets = request.tokens[row.start + 1 : min(row.start + 1 + row.count, request.prompt_len)]
    return prompt_logprobs(logits[: len(targets)], targets, count)


def _allowed(row: Row) -> Sequence[NDArray[np.bool_] | None]:
    """What the grammar lets come next, and behind each draft; None without one."""
    matcher = row.request.matcher
    return [None] * (1 + len(row.drafts)) if matcher is None else matcher.allowed(row.drafts)


def _sample_row(row: Row, index: int, allowed: NDArray[np.bool_] | None) -> SampleRow:
    """How the token behind ``index`` drafts is picked; its uniform number is that place's own, with or without them."""
    request = row.request
    number = uniform(request.seed, request.num_output + index)
    if not penalizes(request.params):
        return SampleRow(request.params, number, banned=_banned(row, index), allowed=allowed)
    output = request.tokens[request.prompt_len :] + list(row.drafts[:index])
    return SampleRow(request.params, number, request.prompt_ids, output, _banned(row, index), allowed)


def _banned(row: Row, index: int) -> tuple[int, ...]:
    request, least = row.request, row.request.params.min_tokens
    return tuple(request.end_ids) if least and request.num_output + request.pending + index < least else ()
