"""Children take turns, and none outlives the benchmark that started it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.common import children
from benchmarks.common.children import Turns, Worker

# Answers each line with its double; a child of its own shows that the whole group is meant.
ECHO = """
import json, subprocess, sys
inner = subprocess.Popen(["sleep", "100"])
print(json.dumps({"inner": inner.pid}), flush=True)
for line in sys.stdin:
    print(json.dumps({"twice": 2 * json.loads(line)["n"], "inner": inner.pid}), flush=True)
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LOGS", tmp_path)


def worker(name: str, code: str = ECHO) -> Worker:
    return Worker(name, [sys.executable, "-c", code])


def wait_for(pid: int, *states: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid):
            assert psutil.STATUS_DEAD in states
            return
        if psutil.Process(pid).status() in states:
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} is {psutil.Process(pid).status()}, not {states}")


def test_one_runs_while_the_others_groups_are_stopped() -> None:
    with Turns() as turns:
        first, second = worker("first"), worker("second")
        turns.start(first)
        inner = first.ask({"n": 1})["inner"]
        turns.start(second)
        wait_for(first.process.pid, psutil.STATUS_STOPPED)
        wait_for(inner, psutil.STATUS_STOPPED)
        assert second.ask({"n": 4})["twice"] == 8

        turns.only(first)
        wait_for(second.process.pid, psutil.STATUS_STOPPED)
        assert first.ask({"n": 5})["twice"] == 10


def test_all_end_also_when_stopped_and_when_something_breaks() -> None:
    pids = []

    def breaks() -> None:
        with Turns() as turns:
            for name in ("first", "second"):
                child = worker(name)
                turns.start(child)
                pids.extend([child.process.pid, child.ask({"n": 0})["inner"]])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaks()
    for pid in pids:
        wait_for(pid, psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)


def test_a_child_that_never_gets_ready_shows_the_end_of_its_log() -> None:
    with Turns() as turns, pytest.raises(SystemExit, match="no such model"):
        turns.start(worker("broken", "import sys; sys.exit('no such model')"))
