"""The largest values against a stable sort of the whole row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.sampling.largest import largest


@given(st.integers(0, 2**32), st.integers(1, 2500), st.integers(1, 5), st.integers(1, 300), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_the_order_is_that_of_a_stable_sort(seed: int, width: int, rows: int, count: int, digits: int) -> None:
    generator = np.random.default_rng(seed)
    # Few digits make many equal values, of both zeros too.
    values = generator.normal(scale=3, size=(rows, width)).round(digits).astype(np.float32)
    values[generator.random(values.shape) < 0.1] = -np.inf

    found, ids = largest(values, count)

    order = np.argsort(-values.astype(np.float64), axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(found, np.take_along_axis(values, order, axis=1))


@pytest.mark.parametrize("width", [40, 1024, 5000, 49152])
def test_equal_values_come_in_the_order_of_their_ids(width: int) -> None:
    _, ids = largest(np.zeros((2, width), dtype=np.float32), 40)
    np.testing.assert_array_equal(ids, [np.arange(40)] * 2)
