"""Replicas and their slices: none starts before its slice is there, and what strikes a slice restarts its replica."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from gpuruntime.process import process_start_time
from gpuruntime.protocol import Desired, ObservedReplica, ReplicaSpec, SliceSpec
from helpers.cutters import nvml_over_mock, simulated
from helpers.patience import PATIENCE_S
from helpers.replicas import Bench, make_spec
from helpers.slices import KeeperBench, slice_spec
from scheduler.node.metrics import AgentCollector
from scheduler.node.stopall import stop_all


class Node:
    """A supervisor over stand-in processes and a keeper over simulated GPUs, both stepped by hand."""

    def __init__(self, folder: Path, rig: Callable[[Path, str], Any] = simulated) -> None:
        self.rig = rig(folder / "devices", "h100-sxm-80gb")
        self.bench = Bench(folder / "node")
        self.slices = KeeperBench(self.rig, folder / "node")
        self.start()

    def start(self) -> None:
        """Another agent, once the one before was killed."""
        self.slices.new_keeper()
        self.bench.new_supervisor(self.slices.desk)

    def want(self, replicas: list[ReplicaSpec], slices: list[SliceSpec]) -> None:
        self.bench.generation += 1
        desired = Desired(generation=self.bench.generation, replicas=replicas, slices=slices)
        assert self.bench.supervisor.apply(desired)

    def step(self) -> None:
        self.bench.supervisor.step()
        self.rig.provider.devices(self.bench.supervisor.residents())
        self.slices.keeper.step()
        self.bench.supervisor.step()

    def until_state(self, state: str, replica_id: str = "rep_1") -> ObservedReplica:
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.bench.seen(replica_id)) is None or found.state != state:
            assert time.monotonic() < deadline, f"{found} {self.slices.desk.observed()}"
            self.step()
            time.sleep(0.02)
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    stop_all(node.bench.state, grace_s=0)


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def on(spec: SliceSpec, replica_id: str = "rep_1", **changes: object) -> ReplicaSpec:
    return make_spec(replica_id, device_uuid=spec.device_uuid, slice_id=spec.slice_id, **changes)


def test_it_starts_once_its_slice_is_there_and_sees_that_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/other")
    spec = slice_spec(node.rig, "3g.40gb", 4)
    node.want([on(spec)], [spec])
    node.bench.supervisor.step()
    waiting = node.bench.seen()
    assert waiting is not None
    assert (waiting.state, waiting.pid) == ("placing", 0)
    assert waiting.reason == "Waiting for its slice 3g.40gb on gpu-0: it is being made"
    ready = node.until_state("ready")
    uuid = node.slices.desk.observed()[0].uuid
    seen = environment_of(ready.pid)
    assert (seen["CUDA_VISIBLE_DEVICES"], "CUDA_MPS_PIPE_DIRECTORY" in seen) == (uuid, False)
    (config,) = (line for line in node.bench.log().splitlines() if line.startswith("device="))
    assert config == f"device={uuid} memory={spec.memory_bytes}"
    (resident,) = node.bench.supervisor.residents()
    assert resident.slice_uuid == uuid


def test_a_crashed_one_takes_its_slice_again(node: Node) -> None:
    spec = slice_spec(node.rig, "3g.40gb", 4)
    node.want([on(spec)], [spec])
    first = node.until_state("ready")
    os.kill(first.pid, signal.SIGKILL)
    node.until_state("lost")
    again = node.until_state("ready")
    assert (again.restarts, again.pid != first.pid) == (1, True)


def test_an_adopted_one_keeps_its_slice(node: Node) -> None:
    spec, other = slice_spec(node.rig, "3g.40gb", 4), slice_spec(node.rig, "1g.10gb", 6)
    node.want([on(spec)], [spec])
    pid = node.until_state("ready").pid
    node.start()
    node.want([on(spec, run=False, drain_timeout_s=5.0)], [other])  # its slice goes, as soon as it is gone
    node.rig.provider.devices(node.bench.supervisor.residents())
    node.slices.keeper.step()
    assert [found.start for found in node.rig.cutter.instances(spec.device_uuid)] == [4]
    node.until_state("stopped")
    node.step()
    assert [found.start for found in node.rig.cutter.instances(spec.device_uuid)] == [6]
    assert process_start_time(pid) is None


@pytest.mark.parametrize("rig", [simulated, nvml_over_mock])
def test_with_the_books_lost_it_keeps_its_slice_by_the_uuid_that_was_reported(
    tmp_path: Path, rig: Callable[[Path, str], Any]
) -> None:
    node = Node(tmp_path, rig)
    try:
        spec = slice_spec(node.rig, "3g.40gb", 4)
        node.want([on(spec)], [spec])
        before = node.until_state("ready")
        (there,) = node.rig.cutter.instances(spec.device_uuid)
        if rig is nvml_over_mock:  # the simulated driver knows its residents by itself
            node.rig.add_process(spec.device_uuid, there.gi_id, before.pid, 1 << 30)
        (node.slices.folder / "slices.json").unlink()
        node.start()
        node.want([on(spec)], [msgspec.structs.replace(spec, uuid=there.uuid)])
        node.step()
        (kept,) = node.slices.desk.observed()
        assert (kept.slice_id, kept.state, kept.uuid) == (spec.slice_id, "ready", there.uuid)
        after = node.bench.seen()
        assert after is not None
        assert (after.pid, after.state, after.restarts) == (before.pid, "ready", 0)
        # And as its own: once nobody wants it, it goes.
        node.want([on(spec, run=False, drain_timeout_s=5.0)], [])
        node.until_state("stopped")
        node.rig.remove_process(before.pid)
        node.step()
        assert node.rig.cutter.instances(spec.device_uuid) == []
    finally:
        stop_all(node.bench.state, grace_s=0)


def test_an_xid_of_its_slice_restarts_it_and_no_other(node: Node) -> None:
    hit, spared = slice_spec(node.rig, "3g.40gb", 4), slice_spec(node.rig, "1g.10gb", 0)
    node.want([on(hit, "rep_1"), on(spared, "rep_2")], [hit, spared])
    before = (node.until_state("ready", "rep_1").pid, node.until_state("ready", "rep_2").pid)
    (gi_id,) = (found.gi_id for found in node.rig.cutter.instances(hit.device_uuid) if found.start == 4)
    node.rig.xid(hit.device_uuid, 43, gi_id)
    while node.until_state("lost").restarts == 0:
        node.step()
    said = "XID 43 on its slice: a process was stopped after an error of its own"
    assert node.until_state("lost").reason.startswith(f"The runtime ended ({said}); restart 1")
    after = node.until_state("ready")
    spared_now = node.bench.seen("rep_2")
    assert spared_now is not None
    assert (after.pid != before[0], spared_now.pid == before[1], spared_now.restarts) == (True, True, 0)


def test_a_process_that_could_not_start_gives_its_slice_back(node: Node) -> None:
    spec = slice_spec(node.rig, "3g.40gb", 4)
    node.bench.command[:] = ["/nowhere/python"]
    node.want([on(spec)], [spec])
    assert "could not be started" in node.until_state("failed").reason
    assert node.slices.desk.holder(spec.slice_id) == ""


def test_old_records_without_a_slice_are_read(node: Node) -> None:
    """An agent that is replaced by this version left none."""
    spec = make_spec()
    node.want([spec], [])
    node.until_state("ready")
    path = node.bench.state.record_file("rep_1")
    record = msgspec.json.decode(path.read_bytes())
    del record["slice_id"], record["slice_uuid"]
    path.write_bytes(msgspec.json.encode(record))
    node.start()
    node.want([spec], [])
    node.step()
    found = node.bench.seen()
    assert found is not None
    assert found.alive


def test_prometheus_is_told_of_slices(node: Node) -> None:
    class Agent:
        connected = True
        connections = 1

    registry = CollectorRegistry()
    supervisor = node.bench.supervisor
    registry.register(AgentCollector("n", Agent(), node.rig.provider, supervisor, node.slices.desk))
    one, two = slice_spec(node.rig, "3g.40gb", 4), slice_spec(node.rig, "1g.10gb", 0)
    node.want([], [one])
    node.step()
    node.want([], [one, two])
    for state in ("ready", "creating"):
        assert registry.get_sample_value("berth_agent_slices", {"node": "n", "state": state}) == 1
