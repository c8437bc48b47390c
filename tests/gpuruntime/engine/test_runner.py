"""Rows to a batch, against loops over single tokens, and what becomes of drafts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Draws, Known, StepBatch
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.runner import ModelRunner, make_batch, make_draws
from gpuruntime.engine.scheduler import Row


def request(key: int, tokens: int, blocks: int, **params: float) -> Request:
    made = Request(
        key,
        tokens,
        [1000 * key + i for i in range(tokens)],
        SamplingParams(9, **{"temperature": 0.0, **params}),  # type: ignore[arg-type]
        0,
        b"",
        frozenset(),
        Clock(0.0),
    )
    for block in range(blocks):  # one by one, so that the table grows several times
        made.hold([50 * key + block])
    return made


ROW = st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(0, 4), st.integers(0, 9), st.booleans())


@given(st.lists(ROW, min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_batch_is_its_rows_token_by_token(shapes: list[tuple[int, int, int, int, bool]]) -> None:
    rows = []
    for key, (start, count, drafts, later, scored) in enumerate(shapes, 1):
        samples = later == 0
        guesses = tuple(range(7, 7 + drafts)) if samples and not scored else ()
        length = start + count + later
        extra = {"prompt_logprobs": 1} if scored else {}
        owner = request(key, length, -(-(length + drafts) // 16), **extra)
        rows.append(Row(owner, start, count, samples, guesses))
    batch = make_batch(rows)

    tokens, positions, places, wanted = [], [], [], []
    for row in rows:
        own = [*row.request.tokens[row.start : row.start + row.count], *row.drafts]
        for index, token in enumerate(own):
            tokens.append(token)
            positions.append(row.start + index)
            places.append(row.request.blocks[(row.start + index) // 16])
        first = len(own) - 1 - len(row.drafts)
        marks = range(len(own)) if row.request.scores_prompt else range(first, len(own)) if row.samples else ()
        wanted += [len(tokens) - len(own) + index for index in marks]
    assert batch.token_ids.tolist() == tokens
    owners = np.repeat(np.arange(len(rows)), np.diff(batch.begins))
    found = batch.positions[owners] + np.arange(len(tokens)) - batch.begins[owners]
    assert found.tolist() == positions
    assert batch.tables[owners, found // 16].tolist() == places
    assert batch.logits_rows.tolist() == wanted
    assert {array.dtype for array in (batch.token_ids, batch.begins, batch.positions, batch.tables)} == {
        np.dtype("int32")
    }


class Fixed:
    """Picks given tokens in turn."""

    name, num_blocks, weights_bytes = "fixed", 1, 0
    runs_ahead = draws = False

    def __init__(self, picks: list[int]) -> None:
        self._picks = picks

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
        assert len(batch.logits_rows) == len(self._picks)
        return Known(self._picks)

    def logits(self, batch: StepBatch) -> None:
        raise AssertionError("greedy rows need no logits")


@pytest.mark.parametrize(
    ("drafts", "picks", "tokens"),
    [
        ((), [4], [4]),
        ((4, 5), [4, 5, 6], [4, 5, 6]),
        ((4, 5), [4, 9, 6], [4, 9]),
        ((4, 5), [9, 5, 6], [9]),
    ],
)
def test_drafts_count_up_to_the_first_wrong_one(drafts: tuple[int, ...], picks: list[int], tokens: list[int]) -> None:
    prefill = Row(request(1, 20, 2), 0, 8, samples=False)
    decode = Row(request(2, 20, 2), 19, 1, samples=True, drafts=drafts)
    results = ModelRunner(Fixed(picks)).launch([prefill, decode]).results()  # type: ignore[arg-type]
    assert [list(result.tokens) for result in results] == [[], tokens]


def test_a_token_that_is_still_picked_is_named_by_its_place() -> None:
    chunk, waits, known = request(1, 40, 3), request(2, 20, 2), request(3, 10, 1)
    waits.pending = 1
    rows = [Row(chunk, 16, 3, samples=False), Row(waits, 20, 1, samples=True), Row(known, 9, 1, samples=True)]
    batch = make_batch(rows, {3: 0, 2: 5})
    assert batch.token_ids.tolist() == [1016, 1017, 1018, ~5, 3009]
    assert batch.logits_rows.tolist() == [3, 4]


def test_a_draw_has_its_request_s_parameters_and_its_token_s_place() -> None:
    plain, hot = request(1, 5, 1), request(2, 20, 2, temperature=0.5, top_k=2**40, top_p=0.25, min_p=0.125)
    plain.tokens += [8, 9]
    hot.seed, hot.pending = 2**64 - 1, 1
    rows = [Row(plain, 0, 3, samples=False), Row(hot, 20, 1, samples=True), Row(plain, 6, 1, True, drafts=(4, 4))]
    draws = make_draws(rows)
    assert draws.temperatures.tolist() == [0.5, 0, 0, 0]
    assert draws.top_ks.tolist() == [2**31 - 1, 0, 0, 0]
    assert draws.top_ps.tolist() == [0.25, 1, 1, 1]
    assert draws.min_ps.tolist() == [0.125, 0, 0, 0]
    assert draws.seeds.tolist() == [-1, 0, 0, 0]
    assert draws.steps.tolist() == [1, 2, 3, 4]


def test_places_are_those_among_the_rows_that_picked() -> None:
    class Ahead(Fixed):
        runs_ahead = True
        batches: list[StepBatch] = []

        def launch(self, batch: StepBatch, draws: Draws | None = None) -> Known:
            self.batches.append(batch)
            return super().launch(batch, draws)

    first, second = request(2, 20, 2), request(3, 30, 2)
    runner = ModelRunner(Ahead([7, 7]))  # type: ignore[arg-type]
    decodes = [Row(first, 19, 1, samples=True), Row(second, 29, 1, samples=True)]
    runner.launch([Row(request(1, 20, 2), 0, 8, samples=False), *decodes])
    first.pending = second.pending = 1
    runner.launch([Row(second, 30, 1, samples=True), Row(first, 20, 1, samples=True)])
    assert Ahead.batches[1].token_ids.tolist() == [~1, ~0]
