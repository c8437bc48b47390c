"""Runs that are noted: once however often, the newest few, and what a demand makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from berth.deployments.needs import needs_of_deployment
from berth.plans.demands import demand_of, of_class, profile_of
from berth.plans.measured import RUNS_KEPT, Precision, Run, forget_measurements, measurements, note_runs, precision_of
from berth.plans.models import SlotMeasurement
from gpuruntime.protocol import Pace
from helpers.factories import make_deployment
from helpers.fleets import H100, mig
from scheduler.packing.measured import Seen
from scheduler.packing.model import Demand

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PRECISION = ("d" * 64, "bf16", "auto")
SLOT = mig("1g.10gb")


def run(name: str, *paces: Pace, **values: int) -> Run:
    return Run(name, values.pop("precision", PRECISION), values.pop("slot", SLOT), paces, **values)  # type: ignore[arg-type]


class Noted(TestCase):
    @settings(max_examples=25)
    @given(
        st.lists(
            st.tuples(st.integers(0, RUNS_KEPT + 3), st.sampled_from([1, 2, 4]), st.integers(0, 10**6)), max_size=30
        )
    )
    def test_each_run_counts_once_as_it_last_told(self, told: list[tuple[int, int, int]]) -> None:
        newest: dict[str, Pace] = {}
        for number, batch, tokens in told:
            pace = Pace(batch, tokens, float(tokens), tokens)
            note_runs(runs=[run(f"rep_{number}/e", pace)], now=NOON)
            newest.pop(f"rep_{number}/e", None)
            newest[f"rep_{number}/e"] = pace
        kept = list(newest.values())[-RUNS_KEPT:]
        found = measurements()
        sums = {pace.batch: pace for pace in found[PRECISION].paces[SLOT]} if found else {}
        assert set(sums) == {pace.batch for pace in kept}
        for batch, pace in sums.items():
            assert pace.tokens == sum(one.tokens for one in kept if one.batch == batch)


def test_models_precisions_and_slots_are_apart() -> None:
    other = ("d" * 64, "int8", "auto")
    pace = Pace(4, 300, 30.0, 1200)
    note_runs(
        runs=[run("a/1", pace), run("b/1", pace, precision=other), run("c/1", pace, slot=mig("2g.20gb"))], now=NOON
    )
    found = measurements()
    assert set(found) == {PRECISION, other}
    assert set(found[PRECISION].paces) == {SLOT, mig("2g.20gb")}
    assert found[other].paces == {SLOT: (pace,)}


def test_the_most_that_a_run_held_stays() -> None:
    for held in (5, 9, 7):
        note_runs(runs=[run("a/1", weights_bytes=2, kv_bytes=3, memory_bytes=held)], now=NOON)
    note_runs(runs=[run("b/1", weights_bytes=2, kv_bytes=1, memory_bytes=6)], now=NOON)
    seen = measurements()[PRECISION]
    assert (seen.weights_bytes, seen.kv_bytes, seen.memory_bytes) == (2, 3, 9)


def test_what_was_last_seen_long_ago_goes() -> None:
    note_runs(runs=[run("a/1")], now=NOON)
    note_runs(runs=[run("b/1", slot=mig("2g.20gb"))], now=NOON + timedelta(days=1))
    forget_measurements(before=NOON + timedelta(hours=1))
    assert [row.profile for row in SlotMeasurement.objects.all()] == ["2g.20gb"]


def test_a_demand_is_told_what_was_measured_of_its_model_and_precision() -> None:
    deployment = make_deployment()
    needs, promised = needs_of_deployment(deployment), of_class(deployment.service_class)

    def asked(seen: dict[Precision, Seen]) -> Demand:
        return demand_of(deployment, promised, profile_of(deployment, needs, promised, seen), [H100])

    estimated = asked({})
    pace = Pace(deployment.max_num_seqs, 1000, 50.0, 64_000)
    note_runs(runs=[run("a/1", pace, precision=precision_of(deployment))], now=NOON)  # type: ignore[arg-type]
    found = asked(measurements())
    assert found.rates[SLOT] == pytest.approx(64_000 / 50, rel=0.05)
    assert found.rates[SLOT] != estimated.rates[SLOT]
    assert {slot: rate for slot, rate in found.rates.items() if slot != SLOT} == {
        slot: rate for slot, rate in estimated.rates.items() if slot != SLOT
    }
    deployment.dtype = "int8"
    assert asked(measurements()).rates == estimated.rates
