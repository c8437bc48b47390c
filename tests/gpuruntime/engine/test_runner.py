"""Rows to a batch, against loops over single tokens, and what becomes of drafts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Draws, Known, StepBatch
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.runner import ModelRunner, make_batch
from gpuruntime.engine.scheduler import Row


def request(key: int, tokens: int, blocks: int, **params: int) -> Request:
    made = Request(
        key,
        tokens,
        [1000 * key + i for i in range(tokens)],
        SamplingParams(9, temperature=0.0, **params),  # type: ignore[arg-type]
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
