"""The state machine of a GPU's health: cases a person can follow, then what holds for every sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.protocol import DeviceSignals
from scheduler.health import faults, machine
from scheduler.health.catalogue import Severity, xids
from scheduler.health.machine import PROBATION_S, State, step

QUIET = DeviceSignals(epoch="a")
RANK = {"healthy": 0, "probation": 1, "suspect": 2, "draining": 3, "fenced": 4}


@dataclass
class Gpu:
    """One that is told one report after the other; ``at`` in seconds."""

    state: State = field(default_factory=State)
    at: float = 1000.0
    boot: str = "boot-1"
    occupied: bool = True

    def sees(self, after_s: float = 1.0, **signals: Any) -> str:
        self.at += after_s
        seen = DeviceSignals(**{"epoch": "a", **signals})
        self.state = step(self.state, seen, self.at, boot=self.boot, occupied=self.occupied)
        return self.state.health

    def stays(self, seconds: float, **signals: Any) -> str:
        """The same report every ten seconds."""
        for _ in range(int(seconds // 10)):
            self.sees(10.0, **signals)
        return self.state.health


def test_a_process_that_faults_changes_nothing() -> None:
    gpu = Gpu()
    for code, found in xids().items():
        if found.severity is Severity.NONE:
            assert gpu.sees(xids={str(code): 7}) == "healthy", code
    assert gpu.sees(xids={"4711": 3, "not a code": 1}) == "healthy"
    assert gpu.state.memory.faults == {}
    assert gpu.state.reason == ""


@pytest.mark.parametrize("code", [c for c, found in xids().items() if found.severity is Severity.FENCE])
def test_what_makes_results_doubtful_fences_at_once(code: int) -> None:
    gpu = Gpu()
    gpu.sees()
    assert gpu.sees(xids={str(code): 1}) == "fenced"
    assert f"XID {code}" in gpu.state.reason
    assert gpu.stays(24 * 3600 / 100, xids={str(code): 1}) == "fenced", "no time heals it"


def test_uncorrected_memory_is_drained_and_then_fenced_when_empty() -> None:
    gpu = Gpu()
    gpu.sees(ecc_uncorrected=2)
    assert gpu.state.health == "healthy", "what was counted before anybody looked is no news"
    assert gpu.sees(ecc_uncorrected=3) == "draining"
    assert "could not be corrected" in gpu.state.reason
    gpu.occupied = False
    assert gpu.sees(ecc_uncorrected=3) == "fenced"
    gpu.occupied = True
    assert gpu.sees(ecc_uncorrected=3) == "fenced", "nobody makes it drain again"


def test_an_agent_that_starts_anew_is_no_repair_and_no_news() -> None:
    gpu = Gpu()
    gpu.sees(ecc_uncorrected=4, xids={"13": 9})
    assert gpu.sees(epoch="b", ecc_uncorrected=4, xids={"13": 9}) == "healthy"
    gpu.sees(epoch="b", xids={"48": 1}, ecc_uncorrected=4)
    assert gpu.state.health == "draining"
    assert gpu.sees(epoch="c", ecc_uncorrected=4) == "draining"
    assert gpu.sees(epoch="d", xids={"95": 1}, ecc_uncorrected=4) == "fenced"


def test_counts_that_go_on_over_an_epoch_are_no_news_and_lower_ones_are() -> None:
    gpu = Gpu()
    gpu.sees(xids={"95": 2}, recovery_action="gpu_reset", ecc_uncorrected=4)
    assert gpu.stays(20, epoch="b", xids={"95": 2}) == "probation", "the agent counts on, the driver from nothing"
    assert gpu.sees(epoch="c", xids={"95": 1}) == "fenced"


def test_a_boot_repairs_and_probation_passes() -> None:
    gpu = Gpu()
    gpu.sees(xids={"79": 1}, lost=False)
    assert gpu.state.health == "fenced"
    gpu.boot = "boot-2"
    assert gpu.sees(epoch="b") == "probation"
    assert gpu.state.reason == machine.ON_PROBATION
    assert not machine.takes_new(gpu.state.health)
    assert gpu.stays(PROBATION_S - 20, epoch="b") == "probation"
    assert gpu.stays(40, epoch="b") == "healthy"
    assert gpu.state.reason == ""
    assert not gpu.state.memory.on_trial


def test_a_reset_that_the_driver_asked_for_repairs() -> None:
    gpu = Gpu()
    gpu.sees(xids={"95": 1}, recovery_action="gpu_reset")
    assert gpu.state.health == "fenced"
    assert gpu.stays(100, xids={"95": 1}, recovery_action="gpu_reset") == "fenced"
    assert gpu.sees(xids={"95": 1}) == "fenced", "one report without it may be a late one"
    assert gpu.sees(xids={"95": 1}, recovery_action="gpu_reset") == "fenced"
    assert gpu.stays(20, xids={"95": 1}) == "probation", "its word is taken back: the XID before is over as well"
    assert gpu.stays(PROBATION_S + 10, xids={"95": 1}) == "healthy"


def test_what_comes_after_a_reset_is_not_over() -> None:
    gpu = Gpu()
    gpu.sees(xids={"119": 1}, recovery_action="gpu_reset")
    gpu.sees(xids={"119": 1})
    gpu.sees(xids={"119": 1, "48": 1})
    assert gpu.stays(60, xids={"119": 1, "48": 1}) == "fenced"
    assert set(gpu.state.memory.faults) == {"xid:48"}


def test_a_report_that_comes_late_counts_nothing_twice() -> None:
    gpu = Gpu()
    gpu.sees()
    for codes in ({"94": 1}, {}, {"94": 1}, {}, {"94": 1}):
        assert gpu.sees(xids=codes) == "suspect"
    assert gpu.state.memory.faults["xid:94"].count == 1


def test_draining_peers_is_no_repair() -> None:
    gpu = Gpu()
    assert gpu.sees(xids={"48": 1}, recovery_action="drain_p2p") == "draining"
    assert gpu.sees(xids={"48": 1}) == "draining"


@pytest.mark.parametrize(
    ("action", "health"),
    [
        ("none", "healthy"), ("", "healthy"), ("gpu_reset", "fenced"), ("node_reboot", "fenced"),
        ("bus_reset", "fenced"), ("system_reboot", "fenced"), ("drain_p2p", "draining"),
        ("drain_and_reset", "draining"), ("recover_imex_domain", "draining"),
    ],
)  # fmt: skip
def test_what_the_driver_asks_for(action: str, health: str) -> None:
    gpu = Gpu()
    assert gpu.sees(recovery_action=action) == health


def test_a_row_that_waits_for_a_reset_keeps_new_ones_away_until_it() -> None:
    gpu = Gpu()
    assert gpu.sees(row_remap_pending=True) == "suspect"
    assert gpu.stays(7200, row_remap_pending=True) == "suspect", "what runs there is not concerned"
    assert gpu.stays(20) == "probation", "it was reset"


def test_a_lost_gpu_says_nothing_that_is_believed() -> None:
    gpu = Gpu()
    gpu.sees(recovery_action="gpu_reset", ecc_uncorrected=5)
    assert gpu.sees(lost=True) == "fenced"
    assert set(gpu.state.memory.faults) == {"lost", "recovery"}
    assert gpu.stays(20, recovery_action="gpu_reset", ecc_uncorrected=5) == "fenced"
    assert set(gpu.state.memory.faults) == {"recovery"}
    other = Gpu()
    assert other.sees(lost=True) == "fenced"
    assert other.stays(20) == "probation"


def test_heat_must_last_and_may_flicker() -> None:
    gpu = Gpu()
    assert gpu.stays(50, thermal_slowdown=True) == "healthy"
    gpu.sees(1, thermal_slowdown=True)
    gpu.stays(30)
    assert gpu.stays(60, thermal_slowdown=True) == "healthy", "half a minute without is a new beginning"
    gpu.sees(10)
    assert gpu.sees(3, thermal_slowdown=True) == "suspect", "ten seconds without are not"
    assert gpu.stays(faults.LEVEL_QUIET_S - 20) == "suspect"
    assert gpu.stays(40) == "healthy"


def test_heat_that_stays_empties_the_gpu_and_cold_gives_it_back() -> None:
    gpu = Gpu()
    assert gpu.stays(faults.THERMAL_DRAIN_S + 20, thermal_slowdown=True) == "draining"
    assert gpu.stays(faults.LEVEL_QUIET_S + 10) == "probation"
    assert gpu.stays(PROBATION_S + 10) == "healthy"


def test_a_contained_error_is_watched_and_the_third_drains() -> None:
    gpu = Gpu()
    assert gpu.sees(xids={"94": 1}) == "suspect"
    assert gpu.stays(faults.EVENT_QUIET_S + 10, xids={"94": 1}) == "healthy"
    assert gpu.sees(xids={"94": 2}) == "suspect"
    assert gpu.sees(600, xids={"94": 3}) == "suspect"
    assert gpu.sees(600, xids={"94": 4}) == "draining"
    assert gpu.stays(faults.EVENT_QUIET_S + 10, xids={"94": 4}) == "draining"
    told = machine.told(gpu.state)[0]
    assert told.count == 3
    assert told.todo.startswith("Reset the GPU")


def test_a_slow_one_is_suspect_then_drained_and_measured_anew_when_cleared() -> None:
    gpu = Gpu()
    gpu.state = machine.with_speed(gpu.state, 0.6)
    assert gpu.stays(faults.SLOW_AFTER_S - 10) == "healthy"
    assert gpu.stays(30) == "suspect"
    assert "slower than their siblings" in gpu.state.reason
    assert gpu.stays(faults.SLOW_DRAIN_S) == "draining"
    gpu.occupied = False
    assert gpu.sees() == "fenced"
    gpu.state = machine.clear(gpu.state, gpu.at)
    assert gpu.state.health == "probation"
    assert gpu.stays(PROBATION_S + 10) == "healthy"


def test_one_that_is_as_fast_again_is_forgiven() -> None:
    gpu = Gpu()
    gpu.state = machine.with_speed(gpu.state, 0.6)
    gpu.stays(faults.SLOW_AFTER_S + 60)
    gpu.state = machine.with_speed(gpu.state, 0.0)
    assert gpu.stays(faults.LEVEL_QUIET_S + 20) == "healthy"


def test_an_operator_fences_and_clears() -> None:
    gpu = Gpu()
    gpu.sees()
    gpu.state = machine.fence(gpu.state, "Fenced by ann@example.com: fans are changed", gpu.at)
    assert gpu.state.health == "fenced"
    assert gpu.state.reason.startswith("Fenced by ann@example.com: fans are changed")
    gpu.boot = "boot-2"
    assert gpu.sees(epoch="b") == "fenced", "only a person takes back what a person said"
    gpu.state = machine.clear(gpu.state, gpu.at)
    assert (gpu.state.health, gpu.state.since) == ("probation", gpu.at)


def test_a_clear_accepts_what_holds_until_it_comes_again() -> None:
    gpu = Gpu()
    gpu.sees(row_remap_failed=True)
    assert gpu.state.health == "draining"
    assert machine.holds_back(gpu.state) == ()
    gpu.state = machine.clear(gpu.state, gpu.at)
    assert gpu.stays(PROBATION_S + 20, row_remap_failed=True) == "healthy"
    gpu.sees()
    assert gpu.sees(row_remap_failed=True) == "draining"


def test_nobody_clears_what_the_driver_asks_for() -> None:
    gpu = Gpu()
    gpu.sees(recovery_action="gpu_reset", xids={"95": 1})
    assert machine.holds_back(gpu.state) == ("recovery",)
    assert machine.clear(gpu.state, gpu.at).health == "fenced"


def test_time_passes_for_a_device_that_tells_nothing() -> None:
    state = machine.fence(State(), "Fenced by ann@example.com: dust", 0.0)
    state = machine.clear(step(state, None, 10.0), 20.0)
    assert step(state, None, 20.0 + PROBATION_S - 1).health == "probation"
    assert step(state, None, 20.0 + PROBATION_S).health == "healthy"


def test_what_is_remembered_survives_json() -> None:
    gpu = Gpu()
    gpu.sees(xids={"94": 1}, ecc_uncorrected=3, thermal_slowdown=True)
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(gpu.state.memory)), machine.Memory)
    assert again == gpu.state.memory


# --- what holds for every sequence ------------------------------------------------------------------------------

CODES = ("13", "31", "43", "48", "63", "74", "79", "92", "94", "95", "119", "154", "9999")
ACTIONS = ("none", "drain_p2p", "drain_and_reset", "gpu_reset", "node_reboot")
signals = st.builds(
    DeviceSignals,
    epoch=st.sampled_from("ab"),
    xids=st.dictionaries(st.sampled_from(CODES), st.integers(0, 4), max_size=3),
    ecc_uncorrected=st.integers(0, 2),
    row_remap_pending=st.booleans(),
    row_remap_failed=st.booleans(),
    recovery_action=st.sampled_from(ACTIONS),
    thermal_slowdown=st.booleans(),
    lost=st.booleans(),
)


@dataclass(frozen=True)
class Report:
    seen: DeviceSignals | None
    after_s: float
    boot: str
    occupied: bool
    slow: float | None
    done: str


reports = st.builds(
    Report,
    seen=st.none() | signals,
    after_s=st.sampled_from((0.0, 1.0, 14.0, 61.0, 700.0, 4000.0)),
    boot=st.sampled_from(("1", "2")),
    occupied=st.booleans(),
    slow=st.sampled_from((None, None, 0.0, 0.5)),
    done=st.sampled_from(("", "", "", "fence", "clear")),
)
runs = st.lists(reports, max_size=12)


def run(sequence: list[Report], state: State | None = None, at: float = 0.0) -> tuple[State, float]:
    state = state or State()
    for report in sequence:
        at += report.after_s
        if report.slow is not None:
            state = machine.with_speed(state, report.slow)
        if report.done == "fence":
            state = machine.fence(state, "Fenced by ann: test", at)
        elif report.done == "clear":
            state = machine.clear(state, at)
        state = step(state, report.seen, at, boot=report.boot, occupied=report.occupied)
    return state, at


@settings(max_examples=60, deadline=None)
@given(runs)
def test_every_state_explains_itself_and_the_same_reports_give_the_same_state(sequence: list[Report]) -> None:
    state, at = run(sequence)
    assert run(sequence) == (state, at)
    assert bool(state.reason) == (state.health != "healthy")
    assert len(state.reason) <= machine.MOST_REASON
    worst = max((row.severity for row in machine.told(state)), default=Severity.NONE)
    expected = {
        Severity.FENCE: {"fenced"},
        Severity.DRAIN: {"draining", "fenced"},
        Severity.WATCH: {"suspect"},
        Severity.NONE: {"healthy", "probation"},
    }
    assert state.health in expected[worst]
    assert machine.takes_new(state.health) == (state.health == "healthy")


@settings(max_examples=60, deadline=None)
@given(runs, signals)
def test_a_report_taken_twice_changes_nothing(sequence: list[Report], seen: DeviceSignals) -> None:
    state, at = run(sequence)
    once = step(state, seen, at, boot="1", occupied=False)
    assert step(once, seen, at, boot="1", occupied=False) == once


applications = st.dictionaries(st.sampled_from(("13", "31", "43", "63", "109")), st.integers(0, 99))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(applications, st.floats(0, 1e5))))
def test_without_a_fault_of_its_own_it_never_leaves_healthy(told: list[tuple[dict[str, int], float]]) -> None:
    state, at = State(), 0.0
    for codes, after_s in told:
        at += after_s
        state = step(state, DeviceSignals(epoch="a", xids=codes), at, boot="1")
        assert state.health == "healthy"


@settings(max_examples=80, deadline=None)
@given(runs, signals)
def test_there_is_always_a_way_back(sequence: list[Report], seen: DeviceSignals) -> None:
    """A repaired GPU (nothing holds any more) that an operator clears is healthy after its probation."""
    state, at = run([*sequence, Report(seen, 1.0, "1", False, None, "")])
    for after_s in (1, 1 + faults.STALE_S):
        state = step(state, QUIET, at + after_s, boot="1")
    assert machine.holds_back(state) == ()
    cleared_at = at + 20
    state = machine.clear(state, cleared_at)
    assert RANK[state.health] <= RANK["probation"]
    assert step(state, QUIET, cleared_at + PROBATION_S, boot="1").health == "healthy"


@settings(max_examples=60, deadline=None)
@given(runs)
def test_without_a_person_only_a_repair_ends_a_fatal_fault(sequence: list[Report]) -> None:
    state, at = run(sequence)
    for after_s in (0, faults.STALE_S):
        state = step(state, QUIET, at + after_s, boot="1")
    for hours in range(0, 48, 6):
        state = step(state, DeviceSignals(epoch="z", xids={"95": 99}), at + 3600 * hours + 20, boot="1")
        assert state.health == "fenced"
        assert not machine.takes_new(state.health)
        assert not machine.may_run(state.health)


@st.composite
def worse(draw: st.DrawFn) -> tuple[DeviceSignals, DeviceSignals]:
    """A report and one that is in no respect better."""
    mild = draw(signals)
    more = draw(st.dictionaries(st.sampled_from(CODES), st.integers(0, 3), max_size=2))
    counts = {code: mild.xids.get(code, 0) + more.get(code, 0) for code in {*mild.xids, *more}}
    grave = msgspec.structs.replace(
        mild,
        xids=counts,
        ecc_uncorrected=mild.ecc_uncorrected + draw(st.integers(0, 1)),
        row_remap_pending=mild.row_remap_pending or draw(st.booleans()),
        row_remap_failed=mild.row_remap_failed or draw(st.booleans()),
        recovery_action=ACTIONS[draw(st.integers(ACTIONS.index(mild.recovery_action), len(ACTIONS) - 1))],
        thermal_slowdown=mild.thermal_slowdown or draw(st.booleans()),
    )
    return mild, grave


@settings(max_examples=100, deadline=None)
@given(runs, worse(), st.booleans())
def test_a_graver_report_never_gives_a_better_health(
    sequence: list[Report], pair: tuple[DeviceSignals, DeviceSignals], occupied: bool
) -> None:
    state, at = run(sequence)
    epoch = state.memory.signals.epoch if state.memory.signals is not None else "a"  # what counts must be comparable
    same = [msgspec.structs.replace(seen, epoch=epoch) for seen in pair]
    mild, grave = (step(state, seen, at + 1, boot="1", occupied=occupied) for seen in same)
    assert RANK[grave.health] >= RANK[mild.health]
