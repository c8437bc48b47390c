"""Whatever a client sends is read, or refused with the name of a field it sent or left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.openai_api import BadBody, ChatBody, CompletionBody
from gpuruntime.openai_checks import decode_chat, decode_completion, decode_detokenize, decode_tokenize

NAMES = sorted({*ChatBody.__struct_fields__, *CompletionBody.__struct_fields__, "tokens", "add_generation_prompt"})
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 30), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)  # fmt: skip
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "robot"]), "content": SCALARS}), max_size=2)
VALUES = st.recursive(SCALARS | MESSAGES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2))  # fmt: skip  # noqa: E501
BODIES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
DECODERS = [decode_chat, decode_completion, decode_tokenize, decode_detokenize]


def tried(decode: Callable[[bytes], Any], raw: bytes) -> tuple[Any, BadBody | None]:
    try:
        return decode(raw), None
    except BadBody as error:
        return None, error


@pytest.mark.parametrize("decode", DECODERS)
@given(body=BODIES, whole=st.booleans())
def test_a_body_is_read_or_refused_by_a_fields_name(decode: Callable[[bytes], Any], body: Any, whole: bool) -> None:
    if whole:
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "prompt": "x", **body}
    read, refusal = tried(decode, json.dumps(body).encode())
    if refusal is not None:
        assert refusal.param is not None
        name = refusal.param.split("[")[0].split(".")[0]
        assert name in NAMES
        assert name in str(refusal)
        return
    for name, value in body.items():
        if hasattr(read, name) and isinstance(value, str | bool):
            assert getattr(read, name) == value


@pytest.mark.parametrize("decode", DECODERS)
@given(raw=st.binary(max_size=60))
def test_bytes_are_read_or_refused(decode: Callable[[bytes], Any], raw: bytes) -> None:
    with pytest.raises(BadBody):
        decode(raw)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_none_for_us(number: str) -> None:
    with pytest.raises(BadBody):
        decode_completion(b'{"model":"m","prompt":"x","temperature":' + number.encode() + b"}")


@given(
    st.lists(st.one_of(st.text(max_size=3), st.integers(-1, 9), st.lists(st.integers(0, 9), max_size=2)), max_size=4)
)
def test_prompts_are_of_one_kind(prompt: list[Any]) -> None:
    kinds = {type(item) for item in prompt}
    good = len(kinds) == 1 and (kinds == {int} or all(prompt))
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    if not good:
        with pytest.raises(BadBody) as caught:
            decode_completion(body)
        assert caught.value.param == "prompt"
        return
    expected = [tuple(prompt)] if kinds == {int} else [p if isinstance(p, str) else tuple(p) for p in prompt]
    assert decode_completion(body).prompts == expected
