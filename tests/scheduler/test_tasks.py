"""The tick over the real database and Redis, with agents played by the services that take their reports."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from berth.core import leases
from berth.core.errors import NoRoom
from berth.decisions.models import Decision
from berth.deployments.models import Deployment, Replica
from berth.deployments.services import change_deployment, observe_replicas, stop_deployment
from berth.fleet.models import Node, Seat, SliceUnit
from berth.fleet.services import desired_for, drain_node, observe_node
from berth.live import names
from gpuruntime import protocol
from helpers.factories import GIB, device, hello, make_deployment, make_node
from scheduler import tasks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("liveness")]


class Agent:
    """Says of its node what a test wants to be seen; every replica it was told to run is in ``state``."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def report(self, state: str = "ready", **changes: Any) -> None:
        desired = desired_for(self.node)
        rows = [
            protocol.ObservedReplica(
                **{
                    "replica_id": spec.replica_id,
                    "state": state if spec.run else "stopped",
                    "alive": spec.run and state != "failed",
                    "epoch": "e",
                    "pid": 7,
                    "port": 9000,
                    **changes,
                }
            )
            for spec in desired.replicas
        ]
        observed = protocol.Observed(generation=desired.generation, devices=self.devices(), replicas=rows)
        observe_node(node=self.node, seen=observed)
        observe_replicas(node=self.node, observed=observed)

    def devices(self) -> list[protocol.Device]:
        return [
            device(gpu.index, memory_bytes=gpu.memory_bytes, units=gpu.units, uuid=gpu.uuid)
            for gpu in self.node.gpus.order_by("index")
        ]


def live(deployment: Deployment) -> list[Replica]:
    return list(Replica.objects.for_platform().filter(deployment=deployment, ended_at=None).order_by("created_at"))


def settle(*agents: Agent) -> None:
    for _ in range(6):
        for agent in agents:
            agent.report()
        actions = tasks.tick(time.time())
        if not actions:
            return
    raise AssertionError(f"not settled: {actions}")


def test_places_over_nodes_scales_and_stops() -> None:
    agents = [Agent(make_node("node-a")), Agent(make_node("node-b"))]
    deployment = make_deployment(replica_count=2)
    tasks.tick(time.time())
    rows = live(deployment)
    assert {row.node.name for row in rows} == {"node-a", "node-b"}
    assert rows[0].reason == "Placed on cpu-0 of node-a"
    assert Seat.objects.count() == 2
    assert tasks.tick(time.time()) == []

    settle(*agents)
    change_deployment(deployment=deployment, actor="test", replica_count=1)
    tasks.tick(time.time())
    assert [row.run for row in live(deployment)] == [True, False]
    assert Seat.objects.count() == 2  # it drains: its memory is still taken
    settle(*agents)
    assert [row.id for row in live(deployment)] == [rows[0].id]

    stop_deployment(deployment=deployment, actor="test")
    settle(*agents)
    assert live(deployment) == []
    assert not SliceUnit.objects.exists()
    assert [spec.replica_id for agent in agents for spec in desired_for(agent.node).replicas] == []


def test_without_room_it_waits_with_the_reason_until_there_is_some() -> None:
    deployment = make_deployment()
    tasks.tick(time.time())
    assert live(deployment)[0].reason == "No node is connected that takes replicas"
    make_node("small", device(memory_bytes=GIB // 2, units=1))
    tasks.tick(time.time())
    waiting = live(deployment)[0]
    assert (waiting.node, waiting.state) == (None, "placing")
    needed = f"{waiting.memory_bytes / 1e9:.1f} GB"
    assert waiting.reason == f"No device has {needed} free: small cpu-0 has 0.5 GB of 0.5 GB"
    assert tasks.tick(time.time()) == []
    make_node("large")
    tasks.tick(time.time())
    assert [(row.id, row.node.name) for row in live(deployment)] == [(waiting.id, "large")]


def test_a_replica_that_crashes_five_times_is_given_up_and_tried_elsewhere_then_later() -> None:
    agents = [Agent(make_node("node-a")), Agent(make_node("node-b"))]
    deployment = make_deployment()
    tasks.tick(time.time())
    for node in ("node-a", "node-b"):
        assert live(deployment)[0].node.name == node
        for agent in agents:
            agent.report("failed", restarts=5, reason="exit code 1: no such tensor")
        tasks.tick(time.time())
    waiting = live(deployment)[0]
    assert waiting.node is None
    assert waiting.reason == (
        "It failed 2 times where it could run. Last on node-b: Given up after 5 restarts in a row. exit code 1: "
        "no such tensor. The next try is 120 s after the last"
    )
    given_up = Replica.objects.for_platform().filter(deployment=deployment, state="failed")
    assert {row.reason for row in given_up} == {"Given up after 5 restarts in a row. exit code 1: no such tensor"}
    deployment.refresh_from_db()
    change_deployment(deployment=deployment, actor="test", default_max_tokens=100)  # then it is tried at once
    tasks.tick(time.time())
    assert live(deployment)[0].node is not None


def decided(deployment: Deployment) -> list[Decision]:
    return list(Decision.objects.for_platform().filter(deployment_id=deployment.id).order_by("id"))


def test_a_drained_node_is_left_once_others_are_ready_and_it_is_all_written_down(liveness: redis.Redis) -> None:
    agents = {name: Agent(make_node(name)) for name in ("node-a", "node-b")}
    deployment = make_deployment()
    settle(*agents.values())
    (first,) = live(deployment)
    leaving, other = agents[first.node.name], agents["node-b" if first.node.name == "node-a" else "node-a"]
    drain_node(node=leaving.node, actor="ann@example.com")

    tasks.tick(time.time())
    successor = live(deployment)[1]
    other.report("loading")
    tasks.tick(time.time())
    assert [(row.id, row.run) for row in live(deployment)] == [(first.id, True), (successor.id, True)]
    other.report("ready")
    tasks.tick(time.time())
    assert live(deployment)[0].run  # its agent says ready, and it was not heard itself
    liveness.set(names.alive(successor.id), "e")
    tasks.tick(time.time())
    assert [(row.id, row.run) for row in live(deployment)] == [(first.id, False), (successor.id, True)]
    assert Seat.objects.filter(replica_id=first.id).exists()  # it finishes what it runs
    settle(*agents.values())
    assert [row.id for row in live(deployment)] == [successor.id]

    placed, again, drained = decided(deployment)
    assert [(row.kind, row.replica_id) for row in (placed, again, drained)] == [
        ("place", first.id), ("place", successor.id), ("drain", first.id),
    ]  # fmt: skip
    assert again.chosen["node"] == other.node.name == again.node_name
    assert [found["why_not"] for found in again.candidates] == ["", "the node is being drained"]
    assert drained.why == f"Node {leaving.node.name} is drained: 1 of 1 replicas are ready elsewhere"
    assert (placed.tenant_id, placed.deployment_name) == (deployment.tenant_id, deployment.name)


def test_a_refusal_that_stays_the_same_is_one_row() -> None:
    deployment = make_deployment()
    began = time.time()
    for after in range(0, 10, 2):
        tasks.tick(began + after)
    (refused,) = decided(deployment)
    assert (refused.kind, refused.count) == ("refuse", 5)
    assert (refused.last_at - refused.at).total_seconds() == pytest.approx(8)
    node = make_node("small", device(memory_bytes=GIB // 2, units=1))
    Node.objects.filter(id=node.id).update(last_seen_at=datetime.fromtimestamp(began + 9, UTC))
    tasks.tick(began + 10)
    assert [(row.why, row.count) for row in decided(deployment)] == [
        ("No node is connected that takes replicas", 5),
        (live(deployment)[0].reason, 1),
    ]
    tasks.tick(began + 3600)  # its node is silent by then, and so long after it is news
    assert [row.count for row in decided(deployment)] == [5, 1, 1]


def test_what_was_not_acted_on_was_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**kwargs: Any) -> None:
        raise NoRoom("somebody was faster")

    make_node()
    deployment = make_deployment()
    monkeypatch.setattr(tasks, "reserve_seat", refuse)
    assert len(tasks.tick(time.time())) == 1
    assert (live(deployment), decided(deployment)) == ([], [])


class Clock:
    """Ticks as beat does, every 2 s of a made-up time that starts now; agents and runtimes are heard as told."""

    def __init__(self, agents: list[Agent], liveness: redis.Redis) -> None:
        self.now = time.time()
        self.agents, self.liveness = agents, liveness

    def run(self, seconds: float, *, heard: bool = True, alive: bool = True, ticking: bool = True) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 2
            for row in Replica.objects.for_platform().filter(ended_at=None, run=True):
                self.liveness.set(names.alive(row.id), "e") if alive else self.liveness.delete(names.alive(row.id))
            if heard:
                for agent in self.agents:
                    agent.report()
                    at = datetime.fromtimestamp(self.now, UTC)
                    Node.objects.filter(id=agent.node.id).update(last_seen_at=at)
            if ticking:
                tasks.tick(self.now)


def test_a_silent_runtime_is_replaced_and_keeps_its_seat_until_it_is_gone(liveness: redis.Redis) -> None:
    node = make_node()
    clock = Clock([Agent(node)], liveness)
    deployment = make_deployment()
    clock.run(30)
    first = live(deployment)[0]
    assert first.state == "ready"
    clock.run(4, alive=False)
    assert live(deployment)[0].run
    clock.agents = []  # its report that all has ended comes later
    Node.objects.update(last_seen_at=datetime.fromtimestamp(clock.now + 4, UTC))
    clock.run(4, alive=False)
    lost, replacement = live(deployment)
    assert (lost.id, lost.state, lost.run) == (first.id, "lost", False)
    assert lost.reason == f"The runtime on {node.name} sent no sign of life for 15 s"
    assert (replacement.run, Seat.objects.count()) == (True, 2)
    clock.agents = [Agent(node)]
    clock.run(6)
    assert [row.id for row in live(deployment)] == [replacement.id]


@pytest.mark.parametrize(
    "outage",
    [
        {"heard": False, "alive": False},  # web, or Redis without its keys
        {"heard": False, "alive": False, "ticking": False},  # everything but the runtimes
        {"ticking": False, "alive": False},  # the scheduler, and reports were lost
        {"heard": False},  # the agent
    ],
)
def test_no_outage_of_the_control_plane_replaces_a_live_runtime(liveness: redis.Redis, outage: dict[str, bool]) -> None:
    clock = Clock([Agent(make_node())], liveness)
    deployment = make_deployment()
    clock.run(30)
    before = live(deployment)
    clock.run(20, **outage)
    clock.run(6, alive=False)  # seen again, and the runtimes need a moment to reconnect
    clock.run(30)
    assert [(row.id, row.run, row.state) for row in live(deployment)] == [(before[0].id, True, "ready")]


def test_only_one_works_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(tasks, "tick", seen.append)
    with leases.hold("reconcile", 5) as mine:
        assert mine
        tasks.reconcile()
    assert seen == []
    tasks.reconcile()
    assert len(seen) == 1


def test_an_agent_that_missed_a_message_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(tasks, "desired_changed", told.append)
    node = make_node()
    make_deployment()
    tasks.tick(time.time())
    assert told == [node.id]
    Agent(node).report("loading")
    tasks.tick(time.time())
    assert told == [node.id]


def test_redis_away_is_blindness_and_not_an_error(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    node = make_node()
    deployment = make_deployment()
    tasks.tick(time.time())
    assert live(deployment)[0].node_id == node.id
    observe_node(node=node, seen=hello(node.name, device()))
    assert tasks.tick(time.time() + 2) == []
