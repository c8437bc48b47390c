"""A step arrives at the other ranks as it was sent."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuruntime.engine.executor import Draws, StepBatch
from gpuruntime.parallel.message import Call, Kind, pack, unpack


@st.composite
def calls(draw: Any) -> Call:
    tokens, rows, width, wanted = (draw(st.integers(low, 5)) for low in (1, 1, 1, 0))

    def ints(*shape: int) -> Any:
        return draw(arrays.arrays(np.int32, shape))

    def floats() -> Any:
        return draw(arrays.arrays(np.float32, wanted, elements=st.floats(width=32, allow_nan=False)))

    batch = StepBatch(ints(tokens), ints(rows + 1), ints(rows), ints(rows, width), ints(wanted))
    seeds = draw(arrays.arrays(np.int64, wanted))
    draws = Draws(floats(), ints(wanted), floats(), floats(), seeds, ints(wanted)) if draw(st.booleans()) else None
    return Call(draw(st.sampled_from(Kind)), draw(st.integers(1, 64)), batch, draws)


def same(found: Any, sent: Any) -> None:
    for field in fields(sent):
        one, other = getattr(found, field.name), getattr(sent, field.name)
        assert one.dtype == other.dtype
        assert one.flags.aligned
        np.testing.assert_array_equal(one, other)


@given(sent=calls())
def test_what_is_packed_is_unpacked(sent: Call) -> None:
    found = unpack(pack(sent))
    assert (found.kind, found.threads) == (sent.kind, sent.threads)
    same(found.batch, sent.batch)
    assert (found.draws is None) == (sent.draws is None)
    if sent.draws is not None:
        same(found.draws, sent.draws)
