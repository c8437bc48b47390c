"""Requests explained: each sentence against one written by hand, and timelines that tile the time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.metering.explain import explain, sentence, timeline, verdict_of
from berth.metering.models import UsageRecord

CHAT = {
    "outcome": "completed", "offered": True, "ttft_limit_us": 500_000, "tpot_limit_us": 100_000,
    "fluidity_floor": 0.99, "prompt_tokens": 900, "new_prompt_tokens": 900, "completion_tokens": 40,
    "ready_at_arrival": True, "tries": 1,
}  # fmt: skip


def record(**values: Any) -> UsageRecord:
    return UsageRecord(**CHAT | values)


SENTENCES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "good",
        "chat",
        {"good": True, "ttft_us": 312_000, "tpot_us": 41_000.0},
        "In time: the first token came after 312 ms, promised 500 ms; then one every 41 ms on average, "
        "promised 100 ms.",
    ),
    (
        "late",
        "queued",
        {
            "reason": "queued", "ttft_us": 812_000, "queue_ms": 640.0, "prefill_ms": 60.0, "running_at_arrival": 32,
            "queued_at_arrival": 0,
        },
        "Late: the first token came after 812 ms, promised 500 ms; 640 ms of it waiting in the queue because "
        "32 requests were running on the replica.",
    ),
    (
        "late",
        "prefill",
        {
            "reason": "prefill", "ttft_us": 2_000_000, "queue_ms": 300.0, "prefill_ms": 1690.0, "cached_tokens": 16,
            "running_at_arrival": 1, "queued_at_arrival": 2, "new_prompt_tokens": 12_000,
        },
        "Late: the first token came after 2 s, promised 500 ms; 1.69 s of it reading the prompt: 12,000 new tokens, "
        "16 from the cache; 300 ms of it waiting in the queue because 1 request was running on the replica and "
        "2 waited before it.",
    ),
    (
        "good",
        "resumed",
        {"good": True, "ttft_us": 312_000, "tries": 2, "resumes": 1},
        "In time: the first token came after 312 ms, promised 500 ms. Its replica broke off, and another went on with "
        "the answer.",
    ),
    (
        "error",
        "resumed in vain",
        {"outcome": "truncated", "reason": "failed", "status": 502, "e2e_us": 9_000, "tries": 5, "resumes": 2},
        "Failed: the replica broke off, after 40 tokens. Its replica broke off 2 times, and another went on with the "
        "answer. 3 replicas were asked beside.",
    ),
    (
        "late",
        "waking",
        {"reason": "waking", "ttft_us": 90_000_000, "queue_ms": 5.0, "prefill_ms": 20.0, "ready_at_arrival": False},
        "Late: the first token came after 1.5 min, promised 500 ms. No replica was ready when it arrived, so it "
        "waited for one.",
    ),
    (
        "late",
        "on the way",
        {"reason": "prefill", "ttft_us": 1_020_000, "queue_ms": 0.0, "prefill_ms": 20.0, "tries": 2},
        "Late: the first token came after 1.02 s, promised 500 ms; 1 s of it passed on the way, before a replica had "
        "it. 2 replicas were asked before one took it.",
    ),
    (
        "late",
        "decode",
        {
            "reason": "decode", "ttft_us": 100_000, "fluidity": 0.9, "tpot_us": 120_000.0, "max_gap_us": 2_400_000,
            "running_at_arrival": 7, "burst": True,
        },
        "Late: 10.0 % of the tokens missed their time of one every 100 ms; the longest pause was 2.4 s, the mean "
        "120 ms. 7 other requests were running on the replica when it came. It went beyond the contract's guaranteed "
        "rate, into its burst.",
    ),
    (
        "late",
        "preempted",
        {"reason": "preempted", "ttft_us": 100_000, "fluidity": 0.5, "preemptions": 1},
        "Late: 50.0 % of the tokens missed their time of one every 100 ms. The engine set it back 1 time to make room "
        "for others, and did its work again.",
    ),
    (
        "late",
        "whole",
        {
            "reason": "decode", "ttft_us": 100_000, "ttft_limit_us": None, "tpot_limit_us": None,
            "fluidity_floor": None, "e2e_us": 90_000_000, "e2e_limit_us": 60_000_000,
        },
        "Late: the whole answer took 1.5 min, promised 1 min.",
    ),
    (
        "late",
        "left after its deadline",
        {"outcome": "client_left", "reason": "queued", "e2e_us": 700_000, "queue_ms": 700.0, "completion_tokens": 0},
        "Late: no token had come after 700 ms, when the client left; promised within 500 ms; 700 ms of it waiting in "
        "the queue.",
    ),
    (
        "error",
        "queue full",
        {"outcome": "refused", "reason": "refused", "status": 503, "e2e_us": 4_000, "tries": 2},
        "Refused: every replica that could take it had a full queue. 2 replicas were asked.",
    ),
    (
        "error",
        "none ready",
        {"outcome": "refused", "reason": "refused", "status": 503, "ready_at_arrival": False, "tries": 0},
        "Refused: no replica was ready.",
    ),
    (
        "error",
        "queue timeout",
        {"outcome": "queue_timeout", "reason": "refused", "status": 503, "e2e_us": 30_000_000},
        "Refused: it waited 30 s in the queue, the longest that anything may.",
    ),
    (
        "error",
        "truncated",
        {"outcome": "truncated", "reason": "failed", "ttft_us": 1, "completion_tokens": 1},
        "Failed: the replica broke off, after 1 token.",
    ),
    (
        "error",
        "gateway lost",
        {"outcome": "gateway_lost", "reason": "failed", "completion_tokens": 1200},
        "Failed: the gateway that carried it was lost, after 1,200 tokens.",
    ),
    (
        "apart",
        "left early",
        {"outcome": "client_left", "offered": False, "e2e_us": 250_000, "completion_tokens": 0},
        "Not counted: the client left after 250 ms, before the first token and before it was due.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "values", "said"), [(v, values, said) for v, _, values, said in SENTENCES])
def test_it_says_what_became_of_it_and_why(verdict: str, values: dict[str, Any], said: str) -> None:
    row = record(**values)
    assert verdict_of(row) == verdict
    assert sentence(row) == said
    assert all(clause.code and isinstance(dict(clause.facts), dict) for clause in explain(row))


def test_a_timeline_by_hand() -> None:
    row = record(ttft_us=812_000, e2e_us=2_000_000, queue_ms=640.0, prefill_ms=60.0)
    assert timeline(row) == [
        {"phase": "gateway", "start_ms": 0.0, "end_ms": 112.0},
        {"phase": "queued", "start_ms": 112.0, "end_ms": 752.0},
        {"phase": "prefill", "start_ms": 752.0, "end_ms": 812.0},
        {"phase": "decode", "start_ms": 812.0, "end_ms": 2000.0},
    ]
    external = record(ttft_us=100_000, e2e_us=300_000)
    assert [phase["phase"] for phase in timeline(external)] == ["waiting", "decode"]
    refused = record(outcome="refused", e2e_us=0)
    assert timeline(refused) == []


@given(
    ttft=st.none() | st.integers(0, 10**9),
    rest=st.integers(0, 10**9),
    queue=st.none() | st.floats(0, 1e6),
    prefill=st.none() | st.floats(0, 1e6),
)
def test_phases_follow_one_another_within_the_request(
    ttft: int | None, rest: int, queue: float | None, prefill: float | None
) -> None:
    """Whatever the door's clock said: no phase overlaps another or goes beyond the end."""
    end = (ttft or 0) + rest
    phases = timeline(record(ttft_us=ttft, e2e_us=end, queue_ms=queue, prefill_ms=prefill))
    edges = [edge for phase in phases for edge in (phase["start_ms"], phase["end_ms"])]
    assert edges == sorted(edges)
    assert all(-1e-6 <= edge <= end / 1000 + 1e-3 for edge in edges)


@given(
    outcome=st.sampled_from(["completed", "client_left", "refused", "queue_timeout", "failed", "truncated"]),
    reason=st.sampled_from(["", "waking", "queued", "prefill", "preempted", "decode", "refused", "failed"]),
    good=st.booleans(),
    offered=st.booleans(),
    numbers=st.lists(st.none() | st.integers(0, 10**7), min_size=10, max_size=10),
)
def test_it_says_something_of_any_record(
    outcome: str, reason: str, good: bool, offered: bool, numbers: list[int | None]
) -> None:
    names = (
        "ttft_us", "ttft_limit_us", "tpot_limit_us", "e2e_limit_us", "preemptions", "running_at_arrival",
        "queued_at_arrival", "tries", "resumes", "max_gap_us",
    )  # fmt: skip
    row = record(outcome=outcome, reason=reason, good=good, offered=offered, **dict(zip(names, numbers, strict=True)))
    said = sentence(row)
    assert said[0].isupper()
    assert said.endswith(".")
    assert "None" not in said
    assert ".." not in said
