"""Measured rates against sums by hand, and that too little seen changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.protocol import Pace
from helpers.fleets import mig
from scheduler.packing.measured import GRAIN, LEAST_S, LEAST_STEPS, Seen, rate_of, with_seen
from scheduler.packing.model import Isolation, Need
from scheduler.packing.needs import ReplicaProfile, batch_in, fit

GB = 10**9
SLOT = mig("1g.10gb")
PROFILE = ReplicaProfile(Need(2 * GB, 2 * GB, GB), kv_bytes_per_sequence=GB // 8, max_sequences=16, tpot_s=0.05)


def steps(batch: int, step_s: float, tokens_a_step: float, count: int = 1000) -> Pace:
    return Pace(batch, count, count * step_s, round(count * tokens_a_step))


def test_the_best_batch_size_that_keeps_the_step_counts() -> None:
    paces = [steps(1, 0.02, 1), steps(4, 0.03, 5), steps(8, 0.045, 11), steps(16, 0.08, 24)]
    assert rate_of(paces, 0.05, 16) == pytest.approx(11 / 0.045, rel=GRAIN - 1)
    assert rate_of(paces, 0.05, 16) <= 11 / 0.045
    assert rate_of(paces, None, 16) == pytest.approx(24 / 0.08, rel=GRAIN - 1)
    assert rate_of(paces, 0.01, 16) == 0.0


def test_a_replica_that_was_never_busy_says_nothing() -> None:
    idle = [steps(1, 0.02, 1), steps(2, 0.022, 2.5)]
    assert rate_of(idle, 0.05, 16) is None
    assert rate_of([*idle, steps(8, 0.03, 9)], 0.05, 15) is not None  # 8 to 15 at once were seen
    assert rate_of([*idle, steps(8, 0.03, 9)], 0.05, 16) is None
    assert rate_of([*idle, steps(8, 0.06, 9)], 0.05, 16) == pytest.approx(2.5 / 0.022, rel=GRAIN - 1)


def test_few_steps_are_chance() -> None:
    full = steps(16, 0.03, 20)
    assert rate_of([full._replace(steps=LEAST_STEPS - 1)], 0.05, 16) is None
    assert rate_of([full._replace(seconds=LEAST_S - 0.01)], 0.05, 16) is None
    assert rate_of([], 0.05, 0) is None


@given(st.floats(0.5, 1e6), st.integers(1, 64))
def test_a_rate_is_told_in_steps_below_it(rate: float, batch: int) -> None:
    tokens = max(1, round(rate * 100))
    found = rate_of([Pace(batch, 1000, 100.0, tokens)], None, batch)
    assert found is not None
    assert tokens / 100 / GRAIN < found * (1 + 1e-6)
    assert found <= tokens / 100 * (1 + 1e-6)


def test_what_was_seen_takes_the_estimates_place_in_its_slot_alone() -> None:
    other = mig("2g.20gb")
    batch = batch_in(PROFILE, SLOT)
    seen = Seen(paces={SLOT: (steps(batch, 0.04, batch),)})
    known = with_seen(PROFILE, seen)
    assert fit(known, Isolation.MIG, SLOT).measured
    assert fit(known, Isolation.MIG, SLOT).rate == pytest.approx(batch / 0.04, rel=GRAIN - 1)
    assert fit(known, Isolation.MIG, other) == fit(PROFILE, Isolation.MIG, other)
    slow = with_seen(PROFILE, Seen(paces={SLOT: (steps(1, 0.06, 1),)}))
    assert fit(slow, Isolation.MIG, SLOT).rate == 0.0
    assert "1g.10gb" in fit(slow, Isolation.MIG, SLOT).why_not


def test_memory_is_measured_once_it_was_full() -> None:
    filled = with_seen(PROFILE, Seen(weights_bytes=3 * GB, kv_bytes=2 * GB, memory_bytes=7 * GB))
    assert filled.need == Need(3 * GB, 2 * GB, 2 * GB, driver_bytes=0, measured=True)
    # Another deployment of the model with more KV memory: what lies beside it is the same.
    wider = replace(PROFILE, need=replace(PROFILE.need, kv_bytes=4 * GB))
    assert with_seen(wider, Seen(3 * GB, 2 * GB, 7 * GB)).need.total_bytes == 9 * GB
    assert with_seen(PROFILE, Seen(3 * GB, 2 * GB, 4 * GB)).need == PROFILE.need
    assert with_seen(PROFILE, Seen()).need == PROFILE.need
