"""The definition, clause by clause, against a second implementation that walks over single tokens."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.goodput import (
    SLACK_CAP_US,
    Circumstances,
    Histogram,
    Outcome,
    Reason,
    ServiceLevel,
    Timeline,
    Verdict,
    Window,
    jain_index,
    judge,
)

MS = 1000
CHAT = ServiceLevel(base_ms=1000, tpot_ms=100)
RAG = ServiceLevel(base_ms=1000, prefill_tokens_per_s=10_000, tpot_ms=100)
CODE = ServiceLevel(base_ms=200, free_prompt_tokens=4000, prefill_tokens_per_s=40_000, tpot_ms=60)
BATCH = ServiceLevel(e2e_ms=24 * 3600 * 1000)


def timeline(times_ms: list[float], tpot_ms: int | None = 100, arrived_ms: float = 0) -> Timeline:
    """One token at each time."""
    line = Timeline(int(arrived_ms * MS), None if tpot_ms is None else tpot_ms * MS)
    for time_ms in times_ms:
        line.add(1, int(time_ms * MS))
    return line


def seen(outcome: Outcome = Outcome.COMPLETED, ended_ms: float = 0, **values: object) -> Circumstances:
    return replace(Circumstances(outcome, int(ended_ms * MS), new_prompt_tokens=10), **values)  # type: ignore[arg-type]


def by_single_tokens(times_us: list[int], tpot_us: int) -> tuple[int, int]:
    """(met, missed) as docs/goodput.md writes it, in exact fractions, one token after the other."""
    slack, met, missed = Fraction(0), 0, 0
    for before, now in itertools.pairwise(times_us):
        gap = Fraction(now - before)
        if gap <= tpot_us + slack:
            met += 1
            slack = min(slack + tpot_us - gap, Fraction(2_000_000))
        else:
            missed += math.ceil((gap - slack - tpot_us) / tpot_us)
            slack = Fraction(0)
    return met, missed


FRAMES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3_000_000)), min_size=1, max_size=60)


@given(FRAMES, st.integers(1_000, 500_000))
def test_fluidity_equals_the_walk_over_single_tokens(frames: list[tuple[int, int]], tpot_us: int) -> None:
    line, now, times = Timeline(0, tpot_us), 0, list[int]()
    for count, gap in frames:
        now += gap
        line.add(count, now)
        times += [now] * count
    met, missed = by_single_tokens(times, tpot_us)
    assert (line.met, line.missed) == (met, missed)
    assert line.fluidity == (met / (met + missed) if met + missed else 1.0)
    assert (line.tokens, line.ttft_us) == (len(times), times[0])
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert line.max_gap_us == max(gaps, default=0)
    assert line.stalls == sum(gap > 1_000_000 for gap in gaps)
    assert 0 <= line.slack_us <= SLACK_CAP_US


@given(FRAMES)
def test_a_frame_of_many_is_as_many_frames_at_one_time(frames: list[tuple[int, int]]) -> None:
    whole, single, now = Timeline(0, 50_000), Timeline(0, 50_000), 0
    for count, gap in frames:
        now += gap
        whole.add(count, now)
        for _ in range(count):
            single.add(1, now)
    assert (whole.met, whole.missed, whole.slack_us) == (single.met, single.missed, single.slack_us)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2_000_000)), max_size=60))
def test_choices_are_clocks_of_their_own_that_add_up(frames: list[tuple[int, int, int]]) -> None:
    """Interleaved tokens of several texts are no quicker for who reads one of them."""
    together, apart, now = Timeline(0, 70_000), {n: Timeline(0, 70_000) for n in range(4)}, 0
    for choice, count, gap in frames:
        now += gap
        together.add(count, now, choice)
        apart[choice].add(count, now)
    lines = [line for line in apart.values() if line.tokens]
    for name in ("tokens", "met", "missed", "stalls"):
        assert getattr(together, name) == sum(getattr(line, name) for line in lines)
    assert together.max_gap_us == max((line.max_gap_us for line in lines), default=0)
    assert together.ttft_us == min((line.ttft_us for line in lines if line.ttft_us is not None), default=None)
    gaps = sum(line.tokens - 1 for line in lines)
    spans = sum((line.mean_tpot_us or 0) * (line.tokens - 1) for line in lines)
    assert together.mean_tpot_us == (pytest.approx(spans / gaps) if gaps else None)


def test_the_worked_cases() -> None:
    assert timeline([50]).fluidity == 1.0, "one token has no gap"
    assert timeline([]).fluidity == 1.0
    assert timeline([10, 110, 210]).fluidity == 1.0, "a gap of exactly tpot is met"
    assert timeline([10, 110.001]).missed == 1
    # A burst earns slack that a pause may use: ten tokens at once, then 900 ms, then one.
    assert timeline([10.0] * 10 + [1010]).fluidity == 1.0
    assert timeline([10.0] * 10 + [1011]).missed == 1
    # A freeze of two seconds that a mean would hide: 19 gaps of 100 ms owed, 20 tokens.
    frozen = timeline([10 + 100 * i for i in range(10)] + [2910 + 100 * i for i in range(10)])
    assert (frozen.met, frozen.missed) == (18, 19)
    assert frozen.mean_tpot_us == pytest.approx((2910 + 900 - 10) * MS / 19)


def test_slack_is_capped_at_two_seconds() -> None:
    burst = [0.0] * 200
    assert timeline([*burst, 2100]).missed == 0
    assert timeline([*burst, 2101]).missed == 1


def test_below_a_hundred_tokens_one_miss_fails_the_floor() -> None:
    even = [100.0 * i for i in range(99)]
    late = [*even[:50], *(t + 50 for t in even[50:])]
    assert judge(CHAT, timeline(late), seen(ended_ms=10_000)).good is False
    many = [100.0 * i for i in range(102)]
    assert timeline([*many[:50], *(t + 50 for t in many[50:])]).fluidity >= 0.99


def test_time_before_the_first_token_is_not_a_gap_and_tpot_is_decode_only() -> None:
    line = timeline([900, 950, 1000])
    assert (line.ttft_us, line.mean_tpot_us, line.missed) == (900 * MS, 50 * MS, 0)
    assert timeline([900]).mean_tpot_us is None


@pytest.mark.parametrize(
    ("level", "new", "limit_ms"),
    [
        (CHAT, 100_000, 1000),
        (RAG, 0, 1000),
        (RAG, 10_000, 2000),
        (CODE, 4000, 200),
        (CODE, 44_000, 1200),
        (BATCH, 10**6, None),
    ],
)
def test_the_ttft_limit(level: ServiceLevel, new: int, limit_ms: int | None) -> None:
    assert level.ttft_limit_us(new) == (None if limit_ms is None else limit_ms * MS)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_ttft_limit_in_exact_fractions(new: int, free: int, rate: int) -> None:
    level = ServiceLevel(base_ms=250, free_prompt_tokens=free, prefill_tokens_per_s=rate)
    exact = 250 * MS + Fraction(max(0, new - free), rate) * 1_000_000
    assert level.ttft_limit_us(new) == math.floor(exact)


TABLE = [
    # outcome, tokens, waited ms: offered, good, reason
    (Outcome.COMPLETED, 3, 500, True, True, None),
    (Outcome.COMPLETED, 3, 1001, True, False, Reason.PREFILL),
    (Outcome.CLIENT_LEFT, 3, 500, True, True, None),
    (Outcome.CLIENT_LEFT, 3, 1500, True, False, Reason.PREFILL),
    (Outcome.CLIENT_LEFT, 0, 900, False, False, None),
    (Outcome.CLIENT_LEFT, 0, 1100, True, False, Reason.PREFILL),
    (Outcome.CLIENT_SLOW, 3, 500, True, True, None),
    (Outcome.REFUSED, 0, 10, True, False, Reason.REFUSED),
    (Outcome.QUEUE_TIMEOUT, 0, 30_000, True, False, Reason.REFUSED),
    (Outcome.OVER_QUOTA, 0, 10, False, False, None),
    (Outcome.INVALID, 0, 10, False, False, None),
    (Outcome.FAILED, 0, 10, True, False, Reason.FAILED),
    (Outcome.TRUNCATED, 3, 500, True, False, Reason.FAILED),
    (Outcome.GATEWAY_LOST, 3, 500, True, False, Reason.FAILED),
]


@pytest.mark.parametrize(("outcome", "tokens", "waited_ms", "offered", "good", "reason"), TABLE)
def test_the_table_of_outcomes(
    outcome: Outcome, tokens: int, waited_ms: int, offered: bool, good: bool, reason: Reason | None
) -> None:
    line = timeline([waited_ms + 10 * i for i in range(tokens)])
    verdict = judge(CHAT, line, seen(outcome, waited_ms + 10 * tokens))
    assert (verdict.offered, verdict.good, verdict.reason) == (offered, good, reason)
    assert verdict.good_tokens == (tokens if good else 0)


def test_every_outcome_is_in_the_table() -> None:
    assert {row[0] for row in TABLE} == set(Outcome)


def test_a_client_that_left_is_good_only_if_every_deadline_so_far_was_met() -> None:
    """One miss in 300 tokens passes the floor of a finished answer, not of one that was left."""
    times = [100.0 * i for i in range(300)]
    line = timeline([*times[:150], *(t + 40 for t in times[150:])])
    assert line.missed == 1
    assert judge(CHAT, line, seen(Outcome.COMPLETED, 31_000)).good
    left = judge(CHAT, line, seen(Outcome.CLIENT_LEFT, 31_000))
    assert (left.good, left.reason) == (False, Reason.DECODE)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ready_at_arrival": False, "queue_ms": 900.0}, Reason.WAKING),
        ({"queue_ms": 900.0, "prefill_ms": 200.0}, Reason.QUEUED),
        ({"queue_ms": 200.0, "prefill_ms": 900.0}, Reason.PREFILL),
        ({"queue_ms": None, "prefill_ms": None, "preemptions": 3}, Reason.PREFILL),
    ],
)
def test_a_late_first_token_has_one_reason(values: dict[str, object], reason: Reason) -> None:
    assert judge(CHAT, timeline([1200]), seen(ended_ms=1300, **values)).reason is reason


def test_late_tokens_are_preempted_or_decode() -> None:
    stalled = timeline([100, 900])
    assert judge(CHAT, stalled, seen(ended_ms=1000, preemptions=1)).reason is Reason.PREEMPTED
    assert judge(CHAT, stalled, seen(ended_ms=1000)).reason is Reason.DECODE
    assert judge(CHAT, stalled, seen(ended_ms=1000, ready_at_arrival=False)).reason is Reason.DECODE


def test_an_absent_limit_always_passes_and_end_to_end_may_be_the_only_one() -> None:
    slow = timeline([3_600_000, 7_200_000], tpot_ms=None)
    assert judge(BATCH, slow, seen(ended_ms=7_200_000)).good
    assert not judge(BATCH, slow, seen(ended_ms=24 * 3_600_000 + 1)).good
    assert judge(ServiceLevel(), slow, seen(ended_ms=1e9)).good


def test_compatible_is_the_mean_and_good_is_not() -> None:
    """A freeze that bursts pay back in the mean: compatible, not good. And a miss of nothing but the floor."""
    freeze = timeline([100.0, 1000.0] + [1000.0] * 20)
    verdict = judge(CHAT, freeze, seen(ended_ms=1100))
    assert (verdict.good, verdict.compatible) == (False, True)
    slow = judge(CHAT, timeline([100, 250, 400]), seen(ended_ms=500))
    assert (slow.good, slow.compatible) == (False, False)
    left = judge(CHAT, timeline([100, 150]), seen(Outcome.CLIENT_LEFT, 500))
    assert (left.good, left.compatible) == (True, False)


# --- Windows ----------------------------------------------------------------------------------------------------

VALUES = st.lists(st.floats(1, 1e9), min_size=1, max_size=80)


@given(VALUES, st.floats(0.001, 1))
def test_a_percentile_is_within_one_percent_of_the_sorted_lists(values: list[float], q: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    found = histogram.percentile(q)
    assert found is not None
    assert abs(found / exact - 1) <= 0.0101


@given(VALUES, VALUES)
def test_histograms_add(one: list[float], two: list[float]) -> None:
    parts, whole = [Histogram(), Histogram()], Histogram()
    for part, values in zip(parts, (one, two), strict=True):
        for value in values:
            part.add(value)
            whole.add(value)
    parts[0].merge(Histogram.from_json(json.loads(json.dumps(parts[1].to_json()))))
    assert parts[0] == whole
    assert whole.total == len(one) + len(two)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert Histogram().percentile(0.5) is None


VERDICTS = st.lists(
    st.tuples(st.sampled_from(list(Outcome)), st.integers(0, 20), st.integers(1, 2000), st.floats(0, 5)), max_size=25
)


def filled(rows: list[tuple[Outcome, int, int, float]]) -> Window:
    window = Window()
    for outcome, tokens, waited_ms, ideal_s in rows:
        line = timeline([waited_ms + 90 * i for i in range(tokens)])
        verdict = judge(CHAT, line, seen(outcome, waited_ms + 90 * tokens))
        window.record(verdict, outcome, prompt_tokens=7, ideal_s=ideal_s)
    return window


@given(VERDICTS, VERDICTS)
def test_windows_add_up_and_survive_the_wire(one: list[tuple], two: list[tuple]) -> None:  # type: ignore[type-arg]
    added = filled(one)
    stored = json.loads(json.dumps(filled(two).to_json()))
    added.merge(Window.from_json(stored))
    at_once = filled(one)
    at_once.merge_json(stored)
    assert at_once == added
    whole = filled(one + two)
    left, right = added.to_json(), whole.to_json()
    for name in ("delivered_ideal_s", "good_ideal_s"):
        assert left.pop(name, 0.0) == pytest.approx(right.pop(name, 0.0))
    assert left == right


@given(VERDICTS)
def test_a_bad_request_leaves_the_numerator_never_the_denominator(rows: list[tuple]) -> None:  # type: ignore[type-arg]
    window = filled(rows)
    assert window.offered == window.good + sum(window.reasons.values())
    assert window.offered + window.left_early + window.over_quota + window.invalid == len(rows)
    assert window.good_tokens <= window.tokens
    assert window.attainment == (window.good / window.offered if window.offered else None)


def test_goodput_is_over_provisioned_time_and_the_factors_multiply() -> None:
    window = Window(
        good_tokens=300, provisioned_s=10, busy_s=6, executed_ideal_s=4, delivered_ideal_s=3, good_ideal_s=2
    )  # fmt: skip
    assert window.goodput == 30
    factors = window.factors
    assert factors == {"eta": 0.2, "U": 0.6, "E": pytest.approx(2 / 3), "R": 0.75, "A": pytest.approx(2 / 3)}
    product = math.prod(factors[name] or 0 for name in "UERA")
    assert product == pytest.approx(factors["eta"])
    assert Window(busy_s=1, executed_ideal_s=1.5).factors["E"] == 1.5, "never clamped"
    assert Window().goodput is None
    assert Window().factors == dict.fromkeys(["eta", "U", "E", "R", "A"])


def test_fluidity_in_a_window() -> None:
    window = Window()
    for value in (0.0, 0.5, 1.0):
        verdict = Verdict(True, False, False, Reason.DECODE, 1, None, 1.0, value, 5, 10)
        window.record(verdict, Outcome.COMPLETED)
    found = window.fluidity.percentile(0.5)
    assert found is not None
    assert (found - 1) / 1e6 == pytest.approx(0.5, rel=0.011)


def test_jains_index() -> None:
    assert jain_index([3, 3, 3]) == pytest.approx(1)
    assert jain_index([5, 0, 0, 0]) == pytest.approx(0.25)
    assert jain_index([1, 2, 3]) == pytest.approx(36 / (3 * 14))
    assert jain_index([]) is None
    assert jain_index([0, 0]) is None
