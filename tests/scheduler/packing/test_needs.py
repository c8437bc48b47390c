"""Which slots hold a replica, why others do not, and what the first estimate says."""

from __future__ import annotations

import pytest

from helpers.fleets import H100, mig, mps, whole
from scheduler.packing.model import Isolation, Need
from scheduler.packing.needs import REACHED, STEP_FLOOR_S, ReplicaProfile, fit, fits, rates, slots_of

GB = 10**9
SMALL = ReplicaProfile(Need(1 * GB, 1 * GB, 1 * GB), kv_bytes_per_sequence=100_000_000, tpot_s=0.05)
LARGE = ReplicaProfile(Need(30 * GB, 4 * GB, 2 * GB), kv_bytes_per_sequence=200_000_000, tpot_s=0.05)


def test_a_replica_fits_where_its_memory_does() -> None:
    assert set(rates(LARGE, Isolation.MIG, [H100])) == {mig("3g.40gb"), mig("4g.40gb"), mig("7g.80gb"), whole()}
    assert fit(LARGE, Isolation.MIG, mig("2g.20gb")).why_not == "needs 36.5 GB; 2g.20gb has 21.1 GB"


def test_isolation_is_a_hard_filter() -> None:
    kinds = {slot.kind for slot in rates(SMALL, Isolation.MIG, [H100])}
    assert kinds == {Isolation.MIG, Isolation.WHOLE}
    assert set(rates(SMALL, Isolation.WHOLE, [H100])) == {whole()}
    assert "mps isolates less than mig" in fit(SMALL, Isolation.MIG, mps(2)).why_not


def test_what_was_measured_wins_over_the_estimate() -> None:
    measured = ReplicaProfile(SMALL.need, SMALL.kv_bytes_per_sequence, measured={mig("1g.10gb"): 123.0})
    assert fit(measured, Isolation.MIG, mig("1g.10gb")) == fit(measured, Isolation.TIME_SLICE, mig("1g.10gb"))
    assert fit(measured, Isolation.MIG, mig("1g.10gb")).rate == 123.0
    assert not fit(measured, Isolation.MIG, mig("2g.20gb")).measured


def test_the_estimate_is_a_batch_over_the_time_to_read_it() -> None:
    # On the whole GPU, where no bandwidth is lost to neighbours: 64 sequences of 0.1 GB and 1 GB of weights.
    step_s = STEP_FLOOR_S + (1e9 + 64 * 0.1e9) / (REACHED * 3350e9)
    assert fit(SMALL, Isolation.WHOLE, whole()).rate == pytest.approx(64 / step_s)


def test_a_step_that_the_sla_does_not_allow_is_no_fit() -> None:
    strict = ReplicaProfile(LARGE.need, LARGE.kv_bytes_per_sequence, tpot_s=0.02)
    found = fit(strict, Isolation.MIG, mig("3g.40gb"))
    assert found.rate == 0
    assert "the SLA allows 20 ms" in found.why_not
    assert fit(strict, Isolation.MIG, whole()).rate > 0


def test_larger_slots_never_give_less_of_the_same_kind() -> None:
    for profile in (SMALL, LARGE):
        found = rates(profile, Isolation.TIME_SLICE, [H100])
        for kind in Isolation:
            ladder = [found[slot] for slot in slots_of(H100, [kind]) if slot in found]
            assert ladder == sorted(ladder, reverse=kind < Isolation.MIG)  # parts are named the largest first


def test_every_slot_of_the_fleets_boards_is_judged() -> None:
    judged = fits(SMALL, Isolation.MIG, [H100, "rtx-pro-6000-96gb"])
    assert set(judged) == {*slots_of(H100), *slots_of("rtx-pro-6000-96gb")}
    assert all(found.rate > 0 or found.why_not for found in judged.values())
