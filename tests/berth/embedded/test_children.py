"""One child and the supervisor, with real processes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from berth.embedded import children, statefile
from berth.embedded.children import Child, ChildSpec, State, rotate
from berth.embedded.supervisor import Supervisor, cut_live_log
from gpuruntime.process import process_start_time
from helpers.patience import PATIENCE_S


def until(condition: Callable[[], object], tick: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "took too long"
        tick()
        time.sleep(0.01)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "up.json")
    yield made
    made.stop_all(time.monotonic())


def shell(tmp_path: Path, script: str, name: str = "one", **fields: object) -> ChildSpec:
    return ChildSpec(name=name, command=("/bin/sh", "-c", script), log=tmp_path / f"{name}.log", **fields)  # type: ignore[arg-type]


def test_restarts_wait_longer_each_time(
    tmp_path: Path, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "FIRST_BACKOFF_S", 0.1)
    monkeypatch.setattr(children, "LAST_BACKOFF_S", 0.4)
    child = supervisor.add(shell(tmp_path, f"date +%s.%N >> {tmp_path}/starts; exit 3"))
    until(lambda: child.restarts == 5, supervisor.tick)
    until(lambda: child.state is State.BACKOFF, supervisor.tick)
    starts = [float(line) for line in (tmp_path / "starts").read_text().split()]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    for gap, least in zip(gaps, [0.1, 0.2, 0.4, 0.4, 0.4], strict=True):
        assert least <= gap < least + 0.25
    assert child.last_exit == "exit code 3"


def test_a_death_by_signal_is_named(tmp_path: Path, supervisor: Supervisor) -> None:
    child = supervisor.add(shell(tmp_path, "kill -9 $$"))
    until(lambda: child.state is State.BACKOFF, supervisor.tick)
    assert child.last_exit == "killed by SIGKILL"


def test_what_a_dead_child_left_in_its_session_is_killed(tmp_path: Path, supervisor: Supervisor) -> None:
    child = supervisor.add(shell(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; kill -9 $$", restart=False))
    until(lambda: child.state is State.ENDED, supervisor.tick)
    until(lambda: process_start_time(int((tmp_path / "pid").read_text())) is None)


def test_a_program_that_does_not_exist_ends_with_its_reason_in_the_log(tmp_path: Path, supervisor: Supervisor) -> None:
    child = supervisor.add(ChildSpec(name="one", command=("/no/such/program",), log=tmp_path / "log", restart=False))
    until(lambda: child.state is State.ENDED, supervisor.tick)
    assert child.exit_code == 127
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_an_owner_killed_before_it_noted_its_child_leaves_none(tmp_path: Path) -> None:
    """The command must not run at all when nobody has recorded the process."""
    script = (
        "import os, signal, sys; from pathlib import Path; from berth.embedded.children import Child, ChildSpec\n"
        f"spec = ChildSpec(name='x', command=('/bin/touch', '{tmp_path}/ran'), log=Path('{tmp_path}/x.log'))\n"
        "child = Child(spec, lambda: (print(child.record.pid, flush=True), os.kill(os.getpid(), signal.SIGKILL)))\n"
        "child.start()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == -signal.SIGKILL
    until(lambda: process_start_time(int(done.stdout)) is None)
    assert not (tmp_path / "ran").exists()


def test_only_the_same_process_with_the_same_settings_is_adopted(tmp_path: Path) -> None:
    first = Supervisor(tmp_path / "up.json")
    same, other = shell(tmp_path, "sleep 600", "same"), shell(tmp_path, "sleep 600", "other")
    pids = {spec.name: first.add(spec).record.pid for spec in (same, other)}  # type: ignore[union-attr]
    changed = shell(tmp_path, "sleep 601", "other")

    second = Supervisor(tmp_path / "up.json")
    second.clear_remains({"same": same, "other": changed})
    assert second.adoptable("same")
    assert not second.adoptable("other")
    assert second.add(same).record.pid == pids["same"]  # type: ignore[union-attr]
    assert second.add(changed).record.pid != pids["other"]  # type: ignore[union-attr]
    second.stop_all(time.monotonic() + 5)
    assert [process_start_time(pid) for pid in pids.values()] == [None, None]


def test_a_recycled_pid_is_not_touched(tmp_path: Path) -> None:
    """The file names this very process with another start time: it must survive."""
    record = statefile.Record("web", os.getpid(), 1.0, statefile.boot_id(), "x")
    statefile.write(tmp_path / "up.json", {"web": record})
    supervisor = Supervisor(tmp_path / "up.json")
    assert not supervisor.adoptable("web")
    supervisor.clear_remains({})
    assert statefile.read(tmp_path / "up.json") == {}


def test_a_record_of_another_boot_is_dead(tmp_path: Path) -> None:
    started = process_start_time(os.getpid())
    assert started is not None
    assert statefile.Record("web", os.getpid(), started, statefile.boot_id(), "x").alive()
    assert not statefile.Record("web", os.getpid(), started, "another boot", "x").alive()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"children": 3}', '{"children": {"web": {"pid": 1}}}'])
def test_an_unreadable_state_file_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "up.json").write_text(content)
    assert statefile.read(tmp_path / "up.json") == {}


def test_stop_waits_for_the_polite_and_kills_the_deaf(tmp_path: Path, supervisor: Supervisor) -> None:
    polite = supervisor.add(
        shell(tmp_path, 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done', "polite")
    )
    deaf = supervisor.add(shell(tmp_path, 'trap "" TERM; echo up; while :; do sleep 0.05; done', "deaf", grace_s=0.5))
    until(lambda: all("up" in child.spec.log.read_text() for child in (polite, deaf)))
    began = time.monotonic()
    supervisor.stop(["polite", "deaf"], began + PATIENCE_S)
    assert 0.4 < time.monotonic() - began < PATIENCE_S, "the deaf have their grace, and no more"
    assert "bye" in polite.spec.log.read_text()
    supervisor.tick()
    assert {polite.state, deaf.state} == {State.STOPPED}


def test_a_full_disk_does_not_stop_the_supervision(tmp_path: Path) -> None:
    supervisor = Supervisor(Path("/proc/nowhere/up.json"))
    child: Child = supervisor.add(shell(tmp_path, "sleep 600"))
    assert child.alive
    supervisor.stop(["one"], time.monotonic() + 5)


def test_logs_are_rotated_at_a_start_and_cut_while_open(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("x" * 100)
    rotate(log, limit=100)
    assert log.exists()
    rotate(log, limit=99)
    assert not log.exists()
    assert (tmp_path / "web.log.1").read_text() == "x" * 100
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old" * 50)
        cut_live_log(log, limit=100)
        writer.write(b"new")
    assert log.read_text() == "new"
    assert (tmp_path / "web.log.1").read_text() == "old" * 50
