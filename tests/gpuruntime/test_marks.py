"""Marks say what was said, however often they were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.marks import MARK, mark, read_marks

STEPS = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 200_000), max_size=5)), max_size=30)


@given(steps=STEPS, ends=st.sets(st.integers(0, 3)))
def test_what_is_read_is_what_was_said(steps: list[tuple[int, list[int]]], ends: set[int]) -> None:
    said = [mark(choice, tokens) for choice, tokens in steps] + [mark(choice, [7], "length") for choice in ends]
    assert all(one.startswith(MARK) and one.endswith(b"\n\n") for one in said)
    found = read_marks(b"".join(one[:-1] for one in said))
    assert set(found) == {choice for choice, _ in steps} | ends
    for choice, begun in found.items():
        tokens = [token for one, tokens in steps if one == choice for token in tokens]
        assert begun.tokens == tokens + [7] * (choice in ends)
        assert begun.finish_reason == ("length" if choice in ends else None)


@pytest.mark.parametrize("wrong", [b"x 1 2", b"0 1 stop 2", b"0 1 stop\n0 2", b"\xff 1"])
def test_what_is_no_mark_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_marks(wrong)
