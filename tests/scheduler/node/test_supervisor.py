from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.process import process_start_time
from gpuruntime.protocol import Desired, ReplicaSpec
from helpers.patience import PATIENCE_S, eventually
from scheduler.node import process, replica
from scheduler.node.replica import backoff_s
from scheduler.node.stopall import stop_all

Spec = Callable[..., ReplicaSpec]


def dead(pid: int) -> bool:
    return process_start_time(pid) is None


def test_starts_what_is_wanted_and_drains_what_is_not(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    ready = bench.until_state("ready")
    assert ready.alive
    assert ready.epoch == f"epoch-{ready.pid}"
    assert os.getsid(ready.pid) == ready.pid  # a Ctrl-C in the agent's terminal does not reach it

    bench.want(spec(run=False))
    stopped = bench.until_state("stopped")
    assert not stopped.alive
    assert dead(ready.pid)
    assert process.known_replicas(bench.state) == []

    bench.want()
    bench.until(lambda: bench.supervisor.observed() == [])


def test_what_a_drain_cut_off_is_told_with_the_end(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "parting=cut"))
    bench.until_state("ready")
    bench.want(spec("rep_1", "parting=cut", run=False))
    assert bench.until_state("stopped").reason == "cut"


def test_a_runtime_sees_none_of_the_platforms_secrets(bench: Any, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_NODE_TOKEN", "node-secret")
    monkeypatch.setenv("BERTH_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("BERTH_VLLM_BIN", "/opt/vllm")
    bench.want(spec())
    pid = bench.until_state("ready").pid
    names = {entry.split("=")[0] for entry in Path(f"/proc/{pid}/environ").read_text().split("\0")}
    assert {name for name in names if name.startswith("BERTH_")} == {"BERTH_VLLM_BIN"}
    assert "secret" not in Path(f"/proc/{pid}/cmdline").read_text()


def test_applying_the_same_again_changes_nothing(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    pid = bench.until_state("ready").pid
    for _ in range(3):
        bench.want(spec())
        bench.supervisor.step()
    assert bench.seen().pid == pid


def test_older_generation_is_refused(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    bench.want(spec())
    pid = bench.until_state("ready").pid
    assert not bench.supervisor.apply(Desired(generation=1, replicas=[]))
    bench.supervisor.step()
    assert (bench.seen().pid, bench.seen().state, bench.supervisor.generation) == (pid, "ready", 2)


def test_adopts_a_live_runtime_and_knows_its_state_before_it_is_told(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    first = bench.until_state("ready")
    bench.new_supervisor()
    bench.supervisor.step()
    assert bench.seen() == first  # also: nothing is stopped before the first desired state
    bench.want(spec())
    bench.supervisor.step()
    assert bench.seen() == first


def test_adopts_a_runtime_that_has_not_yet_reported_itself(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    bench.supervisor.step()
    pid = bench.seen().pid
    assert not bench.state.run_file("rep_1").exists()  # killed in the moment after the spawn
    bench.new_supervisor()
    bench.want(spec())
    assert bench.until_state("ready").pid == pid


def test_a_child_without_its_configuration_ends_by_itself(bench: Any) -> None:
    # What is left when the agent dies between fork and record: stdin closes with nothing written.
    child = subprocess.Popen(bench.command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    child.stdin.close()
    assert child.wait(timeout=10) != 0


def test_adopted_replica_that_nobody_wants_is_drained(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    pid = bench.until_state("ready").pid
    bench.state.record_file("rep_1").unlink()  # only the runtime's own file names it
    bench.new_supervisor()
    bench.want()
    bench.until(lambda: bench.supervisor.observed() == [])
    bench.until(lambda: dead(pid) or os.waitpid(pid, os.WNOHANG)[0] == pid)


def test_foreign_run_file_of_a_reused_pid_harms_nobody(bench: Any, spec: Spec) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    record = process.ProcessRecord(replica_id="rep_9", pid=bystander.pid, start_time=1.0, boot_id=process.boot_id())
    process.write_record(bench.state, record)
    bench.new_supervisor()
    bench.want()
    bench.until(lambda: bench.supervisor.observed() == [])
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_crash_is_restarted_with_backoff_and_its_reason(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "exit=7"))
    begun = time.monotonic()
    failed = bench.until_state("failed")
    assert failed.restarts == 1
    assert failed.reason == "The runtime ended (exit code 7): about to break; restart 1 follows 0.5 s later"
    bench.until(lambda: bench.seen().restarts == 3)
    assert time.monotonic() - begun >= 0.5 + 1.0


def test_a_runtime_that_says_why_it_failed_is_quoted(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "fail=weights are truncated"))
    bench.until(lambda: bench.seen().restarts == 1)
    assert "(exit code 3): weights are truncated;" in bench.seen().reason


def test_kill_is_noticed_and_a_new_process_serves(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    first = bench.until_state("ready")
    os.kill(first.pid, signal.SIGKILL)
    bench.until(lambda: "(killed by SIGKILL); restart 1" in bench.seen().reason)
    assert bench.seen().state == "lost"
    second = bench.until_state("ready")
    assert (second.restarts, second.pid == first.pid, second.epoch == first.epoch) == (1, False, False)


def test_a_runtime_that_died_with_its_agent_is_never_reported_ready(bench: Any, spec: Spec) -> None:
    bench.want(spec())
    first = bench.until_state("ready")
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    bench.new_supervisor()
    bench.supervisor.step()
    found = bench.seen()  # what the agent's first report says, before it is told anything
    assert (found.state, found.reason, found.alive, found.port) == ("lost", "The runtime was found dead", False, 0)
    bench.want(spec())
    bench.supervisor.step()
    assert (bench.seen().state, bench.seen().reason) == (
        "lost",
        "The runtime ended (found dead); restart 1 follows 0.5 s later",  # no last line of its log: it was killed
    )
    assert bench.until_state("ready").restarts == 1


@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT"])
def test_a_signals_victim_is_not_said_to_have_given_a_reason(bench: Any, spec: Spec, name: str) -> None:
    bench.want(spec())
    os.kill(bench.until_state("ready").pid, getattr(signal, name))
    bench.until(lambda: bench.seen().restarts == 1)
    assert bench.seen().reason == f"The runtime ended (killed by {name}); restart 1 follows 0.5 s later"


def test_one_crash_counts_once_over_a_restart_of_the_agent(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "exit=1"))
    bench.until_state("failed")
    bench.new_supervisor()
    bench.want(spec("rep_1"))
    assert bench.until_state("ready").restarts == 1


def test_recovered_replica_starts_counting_anew(bench: Any, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "RECOVERED_S", 0.2)
    bench.want(spec())
    os.kill(bench.until_state("ready").pid, signal.SIGKILL)
    bench.until(lambda: bench.seen().restarts == 1)
    bench.until(lambda: bench.seen().state == "ready" and bench.seen().restarts == 0)


def test_backoff_doubles_up_to_a_minute() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 7, 8, 9, 1000)] == [0.5, 1, 2, 32, 60, 60, 60]


def test_stubborn_runtime_and_its_children_are_killed_after_the_drain(
    bench: Any, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "DRAIN_SLACK_S", 0.1)
    bench.want(spec("rep_1", "stubborn", "child"))
    pid = bench.until_state("ready").pid
    child = int(bench.state.log_file("rep_1").read_text().split("child=")[1])
    bench.want(spec("rep_1", run=False, drain_timeout_s=0.5))
    draining = bench.until_state("draining")
    assert draining.alive
    bench.until_state("stopped")
    assert dead(pid)
    assert dead(child)


def test_children_of_a_crashed_runtime_do_not_stay(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "child"))
    pid = bench.until_state("ready").pid
    child = int(bench.state.log_file("rep_1").read_text().split("child=")[1])
    os.kill(pid, signal.SIGKILL)
    bench.until(lambda: bench.seen().restarts == 1)
    eventually(lambda: dead(child))


def test_drain_lets_the_runtime_finish(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1", "drain=0.6", drain_timeout_s=10 * PATIENCE_S))
    bench.until_state("ready")
    begun = time.monotonic()
    bench.want()
    bench.until(lambda: bench.supervisor.observed() == [])
    assert time.monotonic() - begun >= 0.6


def test_unsafe_replica_id_is_refused_and_the_others_start(bench: Any, spec: Spec) -> None:
    bench.want(spec("../../etc/evil"), spec("rep_2"))
    bench.until_state("ready", "rep_2")
    assert [found.replica_id for found in bench.supervisor.observed()] == ["rep_2"]


def test_stop_all_leaves_no_process(bench: Any, spec: Spec) -> None:
    bench.want(spec("rep_1"), spec("rep_2", "stubborn", "child"))
    pids = [bench.until_state("ready", "rep_1").pid, bench.until_state("ready", "rep_2").pid]
    pids.append(int(bench.state.log_file("rep_2").read_text().split("child=")[1]))
    assert stop_all(bench.state, grace_s=0.3) == 2
    assert process.known_replicas(bench.state) == []
    bench.supervisor.apply(Desired(generation=99, replicas=[]))
    bench.until(lambda: all(dead(pid) for pid in pids))
    assert stop_all(bench.state, grace_s=0.3) == 0
