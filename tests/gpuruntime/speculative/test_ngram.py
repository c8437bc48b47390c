"""Prompt lookup against a search over the whole text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.speculative import ngram
from gpuruntime.speculative.ngram import LONGEST_MATCH, PairIndex


def searched(tokens: list[int], most: int) -> tuple[int, ...]:
    """The place with the longest history in common, the newest of equals, of all places that end in the last pair."""
    last = len(tokens) - 1

    def history(place: int) -> int:
        length = 0
        while length <= place and tokens[place - length] == tokens[last - length]:
            length += 1
        return min(length, LONGEST_MATCH)

    places = [place for place in range(1, last) if history(place) >= 2]
    if not places:
        return ()
    best = max(places, key=lambda place: (history(place), place))
    text = list(tokens)
    for index in range(most):
        text.append(text[best + 1 + index])
    return tuple(text[len(tokens) :])


@given(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=60), most=st.integers(1, 8))
@settings(max_examples=400, deadline=None)
def test_the_longest_recent_match_is_followed(tokens: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram, "CANDIDATES", 1000)
        assert PairIndex().follows(tokens, most) == searched(tokens, most)


@given(tokens=st.lists(st.integers(0, 3), min_size=2, max_size=40), cuts=st.sets(st.integers(1, 40)))
@settings(max_examples=150, deadline=None)
def test_a_text_that_grows_is_looked_up_as_one_that_is_whole(tokens: list[int], cuts: set[int]) -> None:
    growing = PairIndex()
    for cut in sorted(cuts):
        growing.follows(tokens[:cut], 4)
    assert growing.follows(tokens, 4) == PairIndex().follows(tokens, 4)


@pytest.mark.parametrize(
    ("tokens", "guess"),
    [
        ([5, 6, 7, 8, 5, 6], (7, 8, 5, 6, 7)),
        ([1, 2, 3, 9, 9, 4, 2, 3, 8, 8, 1, 2, 3], (9, 9, 4, 2, 3)),
        ([7, 7, 7], (7, 7, 7, 7, 7)),
        ([1, 2, 3, 4], ()),
        ([1], ()),
    ],
)
def test_examples(tokens: list[int], guess: tuple[int, ...]) -> None:
    assert PairIndex().follows(tokens, 5) == guess


def test_a_long_text_of_one_pair_is_not_searched_to_its_beginning() -> None:
    tokens = [1, 2] * 5000
    index = PairIndex()
    index.extend(tokens)
    assert index.follows(tokens, 3) == (1, 2, 1)
    assert len(index._newest) == 2
