"""Text that is whole: code points split over tokens, stop strings split over anything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.engine.text import StopFilter, TextStream
from helpers.engine import byte_tokenizer

BYTES = byte_tokenizer("<end>")


def stream(text: str, stops: list[str]) -> tuple[str, list[str], bool]:
    out = TextStream(BYTES, stops)
    pieces = [out.push(token) for token in BYTES.encode(text).ids]
    pieces.append(out.finish())
    return "".join(pieces), pieces, out.stopped


@given(st.text(max_size=30).filter(lambda text: "\ufffd" not in text and "<end>" not in text))
@settings(max_examples=150, deadline=None)
def test_split_code_points_come_out_whole(text: str) -> None:
    joined, pieces, _ = stream(text, [])
    assert joined == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_never_became_whole_are_dropped() -> None:
    out = TextStream(BYTES, [])
    ids = BYTES.encode("a€").ids
    assert "".join([out.push(token) for token in ids[:-1]] + [out.finish()]) == "a"


def test_special_tokens_are_not_shown() -> None:
    out = TextStream(BYTES, [])
    end = BYTES.token_to_id("<end>")
    assert "".join(out.push(token) for token in [*BYTES.encode("ab").ids, end, *BYTES.encode("c").ids]) == "abc"


@given(
    text=st.text(alphabet="abAB\n", max_size=40),
    stops=st.lists(st.text(alphabet="abAB\n", min_size=1, max_size=5), max_size=4),
    cuts=st.lists(st.integers(1, 5), max_size=40),
)
@settings(max_examples=400, deadline=None)
def test_stop_strings_against_a_search_over_the_whole_text(text: str, stops: list[str], cuts: list[int]) -> None:
    filter_ = StopFilter(stops)
    shown, position = "", 0
    for size in [*cuts, len(text)]:
        shown += filter_.push(text[position : position + size])
        position += size
        assert not any(stop in shown for stop in stops)
    shown += filter_.finish()

    first_complete = next((end for end in range(len(text) + 1) if text[:end].endswith(tuple(stops))), None)
    assert filter_.stopped == (first_complete is not None)
    if first_complete is None:
        assert shown == text
    else:
        longest = max(len(stop) for stop in stops if text[:first_complete].endswith(stop))
        assert shown == text[: first_complete - longest]


@pytest.mark.parametrize(
    ("text", "shown"), [("one END two", "one "), ("one EN", "one EN"), ("ENEND", "EN"), ("END", ""), ("E€END", "E€")]
)
def test_a_stop_string_never_leaks_and_a_pending_beginning_is_given_back(text: str, shown: str) -> None:
    joined, _, stopped = stream(text, ["END"])
    assert joined == shown
    assert stopped == ("END" in text)
