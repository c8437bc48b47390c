"""Steps by batch size, against the list of steps itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.engine.paces import Paces

STEPS = st.lists(st.tuples(st.integers(1, 300), st.floats(0.001, 1.0), st.lists(st.integers(0, 6), max_size=4)))


@given(STEPS)
def test_every_step_is_in_one_row(steps: list[tuple[int, float, list[int]]]) -> None:
    pace = Paces()
    for requests, took_s, tokens in steps:
        pace.step(requests, took_s)
        for count in tokens:
            pace.produced(count)
    rows = pace.rows()
    assert [row.batch for row in rows] == sorted({2 ** int(math.log2(requests)) for requests, _, _ in steps})
    for row in rows:
        mine = [step for step in steps if row.batch <= step[0] < 2 * row.batch]
        assert row.steps == len(mine)
        assert row.seconds == pytest.approx(sum(took_s for _, took_s, _ in mine))
        assert row.tokens == sum(sum(tokens) for _, _, tokens in mine)
