"""Frames cut anywhere and filled with anything come out as they went in; the counts are those that were in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.gateway.collect import Collector
from berth.gateway.frames import MAX_EVENT_BYTES, BadStream, StreamFilter

PIECES = ['","usage":{"prompt_tokens":9}', ',"usage":', '"finish_reason":"stop"', "data: [DONE]\n\n", "\n\n", "\\"]
HOSTILE = st.one_of(st.text(max_size=20), st.sampled_from(PIECES))


def chunk(delta: dict[str, Any], tokens: int, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def wire(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def stream(texts: list[str], *, spaced: bool = False) -> bytes:
    chunks = [chunk({"role": "assistant", "content": ""}, 0)]
    chunks += [chunk({"content": text}, number) for number, text in enumerate(texts, 1)]
    chunks.append(chunk({}, len(texts), "length"))
    last = chunk({}, len(texts)) | {"choices": [], "berth": {"queue_ms": 2.5, "ideal_s": None, "cached_tokens": 3}}
    encode = (lambda d: b"data: " + json.dumps(d).encode() + b"\n\n") if spaced else wire
    return b"".join(encode(data) for data in [*chunks, last]) + b"data: [DONE]\n\n"


@given(st.lists(HOSTILE, max_size=12), st.lists(st.integers(1, 60), min_size=1, max_size=8), st.booleans())
def test_any_text_cut_anywhere_arrives_whole(texts: list[str], cuts: list[int], spaced: bool) -> None:
    """``spaced``: another engine's way to write JSON takes the slow path to the same result."""
    data = stream(texts, spaced=spaced)
    frames, out, at, turn = StreamFilter(False, False), list[bytes](), 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        out += frames.take(data[at : at + size])
        at, turn = at + size, turn + 1
    assert frames.done
    assert (frames.prompt_tokens, frames.completion_tokens, frames.finish_reason) == (5, len(texts), "length")
    assert frames.berth is not None
    assert (frames.berth.queue_ms, frames.berth.cached_tokens, frames.berth.ideal_s) == (2.5, 3, None)
    events = [json.loads(event[5:]) for event in out]
    assert [event["choices"][0]["delta"].get("content") for event in events] == ["", *texts, None]
    assert all("usage" not in event and "berth" not in event for event in events)


@given(st.lists(HOSTILE, max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_the_fast_way_and_the_slow_way_agree(texts: list[str], usage: bool, continuous: bool, spaced: bool) -> None:
    fast, slow = StreamFilter(usage, continuous), StreamFilter(usage, continuous)
    one, two = fast.take(stream(texts)), slow.take(stream(texts, spaced=True))
    assert [json.loads(event[5:]) for event in one] == [json.loads(event[5:]) for event in two]


@given(st.lists(HOSTILE, max_size=12))
def test_the_whole_answer_is_the_texts_joined(texts: list[str]) -> None:
    frames, collector = StreamFilter(True, False), Collector()
    for event in frames.take(stream(texts)):
        collector.add(event)
    body = json.loads(collector.body(None))
    assert body["choices"][0]["message"]["content"] == "".join(texts)
    assert body["usage"]["completion_tokens"] == len(texts)


def test_tool_calls_are_put_together() -> None:
    collector = Collector()
    for part in (
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}},
        {"index": 0, "function": {"arguments": "1}"}},
    ):
        collector.add(wire(chunk({"tool_calls": [part]}, 1)))
    message = json.loads(collector.body(None))["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"type": "function", "function": {"name": "add", "arguments": '{"a":1}'}, "id": "call_1"}
    ]


@pytest.mark.parametrize("data", [b"data: nonsense\n\n", b'data: {"choices": 5}\n\n', b"x" * (MAX_EVENT_BYTES + 1)])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(BadStream):
        StreamFilter(False, False).take(data)


def test_comments_keep_the_connection_and_say_nothing() -> None:
    assert StreamFilter(False, False).take(b": ping\n\n") == []
