"""Log probabilities in every shape: strict JSON whatever the engine says, and offsets that point at the token."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.backend import TokenLogprob
from gpuruntime.door.frames import encode
from gpuruntime.door.logprobs import TextLogprobs, chat_logprobs, cut, joined, prompt_logprobs

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
ENTRIES = st.lists(
    st.builds(
        TokenLogprob,
        st.integers(0, 255),
        ANY_FLOAT,
        st.lists(st.tuples(st.integers(0, 255), ANY_FLOAT), max_size=4, unique_by=lambda pair: pair[0]).map(tuple),
    ),
    max_size=8,
)


def byte(token: int) -> bytes:
    return bytes([token])


def numbers(data: object) -> list[float]:
    if isinstance(data, dict):
        return [number for value in data.values() for number in numbers(value)]
    if isinstance(data, list):
        return [number for value in data for number in numbers(value)]
    return [data] if isinstance(data, float) else []


@given(ENTRIES)
def test_it_is_strict_json_that_never_goes_below_the_least(entries: list[TokenLogprob]) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    for shown in (
        chat_logprobs(entries, byte),
        prompt_logprobs([None, *entries], byte),
        TextLogprobs(byte, frozenset()).more(entries),
    ):
        found = json.loads(encode(shown), parse_constant=refuse)
        given_values = [v for e in entries for v in (e.logprob, *(w for _, w in e.top))]
        assert all(math.isfinite(value) and value >= -9999.0 for value in numbers(found))
        assert len(numbers(found)) <= 2 * len(given_values)


@given(st.text(max_size=12), st.lists(st.text(min_size=1, max_size=6), max_size=5), st.booleans())
def test_every_offset_points_at_its_token(prompt: str, words: list[str], padded: bool) -> None:
    """One token a byte in the prompt, behind one that is not in its text; then a token a word."""
    raw = prompt.encode()
    names = {index + 300: word.encode() for index, word in enumerate(words)} | {299: b"\0never in a text\0"}
    ids = [*([299] if padded else []), *raw]

    def token_bytes(token: int) -> bytes:
        return names.get(token) or byte(token)

    scores = TextLogprobs(token_bytes, frozenset())
    echo = scores.echo(prompt, ids, [None, *(TokenLogprob(token, -1.0) for token in ids[1:])][: len(ids)])
    more = scores.more([TokenLogprob(300 + index, -1.0) for index in range(len(words))])
    text = prompt + "".join(words)
    whole = joined([*cut(echo, 3), more])
    starts = [len(raw[:at].decode("utf-8", "ignore")) for at in range(len(raw))]
    assert whole["text_offset"][len(ids) - len(raw) : len(ids)] == starts
    assert [text[at:].startswith(word) for word, at in zip(words, more["text_offset"], strict=True)] == [True] * len(
        words
    )
    assert len(whole["tokens"]) == len(whole["token_logprobs"]) == len(whole["top_logprobs"]) == len(ids) + len(words)


def test_a_token_that_ends_the_text_takes_no_room_in_it() -> None:
    scores = TextLogprobs(byte, frozenset({7}))
    shown = scores.more([TokenLogprob(token, -1.0) for token in (97, 7, 98)])
    assert shown["text_offset"] == [0, 1, 1]


def test_the_rank_of_a_prompts_token_is_told_where_it_is_known() -> None:
    entry = TokenLogprob(97, -3.0, ((98, -0.5), (99, -1.0)))
    assert prompt_logprobs([entry], byte) == [
        {
            "97": {"logprob": -3.0, "rank": None, "decoded_token": "a"},
            "98": {"logprob": -0.5, "rank": 1, "decoded_token": "b"},
            "99": {"logprob": -1.0, "rank": 2, "decoded_token": "c"},
        }
    ]
