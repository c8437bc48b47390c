"""GPUs outside MIG: given whole, or shared through MPS or by taking turns, with memory as a hard bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.slices import GIB, KeeperBench, slice_spec
from scheduler.geometry.boards import board
from scheduler.node.slices.keeper import end_daemons
from scheduler.node.slices.model import SliceNotReady
from scheduler.node.slices.mps import MpsControl, MpsError, program_of

H100 = board("h100-sxm-80gb")


def control_of(bench: KeeperBench, device: int = 0) -> MpsControl:
    assert bench.mps is not None
    return MpsControl(bench.mps, bench.folder / "mps", bench.rig.uuids[device])


def daemon_pid(bench: KeeperBench) -> int:
    return int((control_of(bench).folder / "pipe" / "nvidia-cuda-mps-control.pid").read_text())


def kill_daemon(bench: KeeperBench) -> None:
    pid = daemon_pid(bench)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            control_of(bench).check()
        except MpsError:
            return
        time.sleep(0.01)
    raise AssertionError("the daemon still answers")


def test_a_whole_gpu_is_given_by_its_own_uuid(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "whole", kind="whole")
    assert bench.kept(spec)[spec.slice_id].state == "ready"
    grant, pid = bench.occupy(spec.slice_id)
    assert (grant.device_uuid, grant.memory_bytes) == (spec.device_uuid, H100.memory_bytes)
    assert grant.environment == {"CUDA_VISIBLE_DEVICES": spec.device_uuid}
    bench.end(spec.slice_id, pid)
    bench.step()
    bench.desk.take(spec.slice_id, "rep_2")


def test_a_gpu_goes_from_mig_to_whole_and_back(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    cut, whole = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "whole", kind="whole")
    bench.kept(cut)
    _, pid = bench.occupy(cut.slice_id)
    assert "once nothing runs on it" in bench.kept(whole)[whole.slice_id].reason
    bench.end(cut.slice_id, pid)
    assert bench.step()[whole.slice_id].state == "ready"
    assert not bench.rig.cutter.mig_mode(whole.device_uuid).current
    _, pid = bench.occupy(whole.slice_id)
    assert bench.kept(cut)[cut.slice_id].state == "creating"
    bench.end(whole.slice_id, pid)
    assert bench.step()[cut.slice_id].state == "ready"


def test_two_kinds_on_one_gpu_are_refused_and_the_first_stays(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    first, second = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1/8", 0, kind="time-slice")
    bench.kept(first)
    seen = bench.kept(first, second)
    assert seen[first.slice_id].state == "ready"
    assert seen[second.slice_id].reason == "gpu-0 is used as mig and cannot be time-slice at the same time"


def test_a_whole_gpu_that_another_process_uses_is_not_given(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "whole", kind="whole")
    bench.kept(spec)
    bench.rig.add_process(spec.device_uuid, None, 77, GIB)
    bench.step()
    with pytest.raises(SliceNotReady, match="pid 77"):
        bench.desk.take(spec.slice_id, "rep_1")


def test_time_slices_never_promise_more_memory_than_there_is(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    half, other = (slice_spec(bench.rig, "1/2", start, kind="time-slice") for start in (0, 4))
    greedy = slice_spec(bench.rig, "1/2", 4, kind="time-slice", slice_id="greedy")
    greedy.memory_bytes += GIB
    seen = bench.kept(half, greedy)
    assert seen[half.slice_id].state == "ready"
    assert (seen["greedy"].state, "GiB together" in seen["greedy"].reason) == ("failed", True)
    seen = bench.kept(half, other)
    assert {found.state for found in seen.values()} == {"ready"}
    grant = bench.desk.take(other.slice_id, "rep_1")
    assert (grant.device_uuid, grant.memory_bytes) == (half.device_uuid, H100.memory_mib // 2 << 20)


def test_a_share_is_given_again_only_when_its_memory_is_back(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    left, right = (slice_spec(bench.rig, "1/2", start, kind="time-slice") for start in (0, 4))
    bench.kept(left, right)
    _, pid = bench.occupy(left.slice_id, "rep_1", 8 * GIB)
    bench.occupy(right.slice_id, "rep_2", 8 * GIB)
    bench.desk.leave(left.slice_id, "rep_1")
    bench.step()
    with pytest.raises(SliceNotReady, match=f"pid {pid}"):
        bench.desk.take(left.slice_id, "rep_3")
    again = slice_spec(bench.rig, "1/4", 0, kind="time-slice")
    seen = bench.kept(right, again)
    assert (seen[again.slice_id].state, seen[left.slice_id].state) == ("creating", "removing")
    bench.rig.remove_process(pid)
    bench.step()
    bench.desk.take(again.slice_id, "rep_3")


def test_memory_of_nobody_is_looked_for_beside_what_neighbours_cost(  # type: ignore[no-untyped-def]
    new_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = new_bench()
    left, right = (slice_spec(bench.rig, "1/2", start, kind="time-slice") for start in (0, 4))
    bench.kept(left, right)
    _, pid = bench.occupy(left.slice_id, "rep_1", 8 * GIB)
    bench.occupy(right.slice_id, "rep_2", 8 * GIB)
    bench.end(left.slice_id, pid)
    reserve = bench.rig.cutter.used_bytes(left.device_uuid) - 8 * GIB
    for extra, free in ((600 << 20, False), (500 << 20, True)):
        used = reserve + 8 * GIB + extra
        monkeypatch.setattr(bench.rig.cutter, "used_bytes", lambda _uuid, used=used: used)
        bench.step()
        if free:
            bench.desk.take(left.slice_id, "rep_3")
        else:
            with pytest.raises(SliceNotReady, match=r"not free yet \(600 MiB\)"):
                bench.desk.take(left.slice_id, "rep_3")


def test_mps_is_verified_limited_and_ended(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    first, second = (slice_spec(bench.rig, "1/4", start, kind="mps") for start in (0, 2))
    elsewhere = slice_spec(bench.rig, "1/2", kind="mps", device=1)
    seen = bench.kept(first, second, elsewhere)
    assert {found.state for found in seen.values()} == {"ready"}
    assert bench.rig.cutter.is_exclusive(first.device_uuid)
    grant = bench.desk.take(first.slice_id, "rep_1")
    environment = grant.environment
    assert environment["CUDA_VISIBLE_DEVICES"] == grant.device_uuid == first.device_uuid
    assert environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={H100.memory_mib // 4}M"
    assert Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
    other = bench.desk.take(elsewhere.slice_id, "rep_2").environment
    assert other["CUDA_MPS_PIPE_DIRECTORY"] != environment["CUDA_MPS_PIPE_DIRECTORY"]
    bench.desk.leave(elsewhere.slice_id, "rep_2")

    # A client of it is one whose environment names its pipes; the daemon is asked, as an operator would.
    client = subprocess.Popen(["sleep", "30"], env={**os.environ, **environment})
    try:
        deadline = time.monotonic() + 5
        while str(client.pid) not in control_of(bench).ask("get_client_list 1").split():
            assert time.monotonic() < deadline
        control_of(bench).check()
    finally:
        client.kill()
        client.wait()
    bench.desk.leave(first.slice_id, "rep_1")
    pid = daemon_pid(bench)
    bench.kept(second)
    assert daemon_pid(bench) == pid
    bench.kept()
    with pytest.raises(MpsError):
        control_of(bench).check()
    assert not bench.rig.cutter.is_exclusive(first.device_uuid)


def test_a_daemon_outlives_the_agent_and_is_taken_up(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "1/2", kind="mps")
    bench.kept(spec)
    pid = daemon_pid(bench)
    bench.new_keeper()
    assert bench.kept(spec)[spec.slice_id].state == "ready"
    assert daemon_pid(bench) == pid
    end_daemons(bench.folder, boot=bench.rig.boot)
    with pytest.raises(MpsError):
        control_of(bench).check()


def test_a_daemon_that_died_starts_again_only_once_its_clients_are_gone(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec, free = (slice_spec(bench.rig, "1/2", start, kind="mps") for start in (0, 4))
    bench.kept(spec, free)
    _, pid = bench.occupy(spec.slice_id)
    kill_daemon(bench)
    seen = bench.step()
    assert {found.state for found in seen.values()} == {"failed"}
    assert "the MPS daemon of gpu-0 died" in seen[free.slice_id].reason
    bench.end(spec.slice_id, pid)
    assert {found.state for found in bench.step().values()} == {"ready"}
    control_of(bench).check()


def test_a_process_beside_mps_is_told_of(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "1/2", kind="mps")
    bench.kept(spec)
    _, pid = bench.occupy(spec.slice_id)  # the rig's process is no client
    assert bench.step()[spec.slice_id].reason == f"its process (pid {pid}) runs beside MPS and its limits"


def test_each_slice_gets_its_own_sms_where_the_daemon_has_partitions(  # type: ignore[no-untyped-def]
    new_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATED_MPS_PARTITIONS", "1")
    bench = new_bench()
    quarter, half = slice_spec(bench.rig, "1/4", 0, kind="mps"), slice_spec(bench.rig, "1/2", 4, kind="mps")
    bench.kept(quarter, half)
    first = bench.desk.take(quarter.slice_id, "rep_1").environment["CUDA_MPS_SM_PARTITION"]
    second = bench.desk.take(half.slice_id, "rep_2").environment["CUDA_MPS_SM_PARTITION"]
    assert first != second
    # 132 SMs are 16 chunks of 8: a quarter has 4, a half 8.
    assert set(control_of(bench).ask("lspart").splitlines()) == {f"{first} 4", f"{second} 8"}
    bench.desk.leave(quarter.slice_id, "rep_1")
    control_of(bench).add_partition(1)  # of an agent that died before it wrote it down
    bench.kept(half)
    more = slice_spec(bench.rig, "1/8", 1, kind="mps")
    bench.kept(half, more)
    third = bench.desk.take(more.slice_id, "rep_3").environment["CUDA_MPS_SM_PARTITION"]
    assert set(control_of(bench).ask("lspart").splitlines()) == {f"{second} 8", f"{third} 2"}


def test_without_the_program_mps_is_no_kind_of_this_machines_gpus(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    bench.mps = None
    bench.new_keeper()
    spec = slice_spec(bench.rig, "1/2", kind="mps")
    assert "nvidia-cuda-mps-control is not on this machine" in bench.kept(spec)[spec.slice_id].reason
    (device, _) = bench.keeper.describe(bench.rig.provider.devices([]))
    assert "mps" not in device.kinds
    assert "BERTH_MPS_CONTROL" in device.unable["mps"]


def test_a_daemon_that_does_not_start_is_a_reason(new_bench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    program = tmp_path / "mps"
    program.write_text("#!/bin/sh\necho 'the driver is too old' >&2\nexit 1\n")
    program.chmod(0o755)
    bench.mps = [str(program)]
    bench.new_keeper()
    spec = slice_spec(bench.rig, "1/2", kind="mps")
    seen = bench.kept(spec)[spec.slice_id]
    assert seen.reason == "the MPS daemon of gpu-0 does not serve: the driver is too old"


def test_the_program_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.delenv("BERTH_MPS_CONTROL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_of("nvml") == (str(program),)
    assert (program_of("simulated") or ("",))[0] == sys.executable
    monkeypatch.setenv("BERTH_MPS_CONTROL", "/nowhere/mps")
    assert program_of("nvml") is None
