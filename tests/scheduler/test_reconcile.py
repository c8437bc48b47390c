"""The rules one by one, then what must hold for every world: see ``Simulation``, which applies actions in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.reconcile import reconcile
from scheduler.world import (
    Action,
    CreateReplica,
    Deployment,
    DesiredWorld,
    Device,
    DrainReplica,
    EndReplica,
    Explain,
    Failure,
    MarkLost,
    Node,
    ObservedWorld,
    PlaceReplica,
    Plan,
    Replica,
)

GB = 10**9
NOW = 10_000.0


def node(name: str = "a", *, units: int = 4, gb: int = 24, used: int = 0, heard: float | None = NOW, **k: Any) -> Node:
    device = Device(id=f"gpu-{name}", label="cpu-0", memory_bytes=gb * GB, units=units, used_units=used)
    return Node(id=name, name=name, heard_at=heard, devices=(device,), **{"cordoned": False, **k})


def replica(name: str = "r1", **changes: Any) -> Replica:
    values: dict[str, Any] = {
        "id": name,
        "deployment": "d",
        "node": "a",
        "device": "gpu-a",
        "run": True,
        "state": "ready",
        "reason": "",
        "created_at": NOW - 100,
        "memory_bytes": 3 * GB,
    }
    return Replica(**{**values, **changes})


def waiting(name: str = "r1", **changes: Any) -> Replica:
    return replica(name, node=None, device=None, state="placing", **changes)


def whole_plan(
    nodes: list[Node], replicas: list[Replica], count: int = 1, *, gb: float = 3, since: float | None = 0, **more: Any
) -> Plan:
    world = ObservedWorld(tuple(nodes), tuple(replicas), since, **more)
    return reconcile(world, DesiredWorld((Deployment("d", "dep", count, int(gb * GB), "chat"),)), NOW)


def plan(*args: Any, **kwargs: Any) -> list[Action]:
    return whole_plan(*args, **kwargs).actions


def test_places_what_is_missing_on_the_first_node_that_fits() -> None:
    assert plan([node("b"), node("a")], []) == [
        PlaceReplica("d", None, "a", "gpu-a", 3 * GB, "Placed on cpu-0 of a"),
    ]
    assert plan([node("a", used=4), node("b")], [])[0].node == "b"  # type: ignore[union-attr]


def test_a_second_replica_prefers_another_node_and_takes_the_same_one_when_it_must() -> None:
    first = replica()
    assert plan([node("a", used=1), node("b")], [first], 2)[0].node == "b"  # type: ignore[union-attr]
    assert plan([node("a", used=1), node("b", used=4)], [first], 2)[0].node == "a"  # type: ignore[union-attr]


def test_without_room_it_waits_and_says_what_was_needed_and_what_there_is() -> None:
    reason = "No device has 19.0 GB free: a cpu-0 has 18.0 GB of 24.0 GB"
    assert plan([node(used=1)], [], gb=19) == [CreateReplica("d", reason)]
    row = waiting(memory_bytes=19 * GB)
    assert plan([node(used=1)], [row], gb=19) == [Explain("r1", reason)]
    assert plan([node(used=1)], [replace(row, reason=reason)], gb=19) == []
    assert plan([node()], [row], gb=19) == [PlaceReplica("d", "r1", "a", "gpu-a", 19 * GB, "Placed on cpu-0 of a")]


def test_nodes_that_are_silent_or_cordoned_take_nothing() -> None:
    reason = "No node is connected that takes replicas"
    for unusable in ([], [node(heard=None)], [node(heard=NOW - 6)], [node(cordoned=True)]):
        assert plan(unusable, []) == [CreateReplica("d", reason)]


def test_scale_down_takes_the_waiting_then_the_newest_unready_then_the_newest() -> None:
    rows = [
        replica("old", created_at=1),
        replica("new", created_at=4),
        replica("slow", created_at=2, state="loading"),
        replica("crashed", created_at=3, state="failed", restarts=1),
        waiting("waits", created_at=0),
    ]
    order = ["waits", "crashed", "slow", "new", "old"]
    for count in range(5):
        ended = {action.replica for action in plan([node()], rows, count)}  # type: ignore[union-attr]
        assert ended == set(order[: 5 - count])
    assert plan([node()], rows[:1], 0) == [DrainReplica("old", "Its deployment was stopped")]
    assert plan([node()], rows[:2], 1) == [DrainReplica("new", "Scaled down")]


@pytest.mark.parametrize("state", ["failed", "lost"])
def test_a_crash_is_left_to_the_agent_until_it_has_tried_five_times(state: str) -> None:
    crashed = replica(state=state, restarts=4, reason="exit code 1", missing_since=NOW - 100)
    assert plan([node(used=1)], [crashed]) == []
    given_up = plan([node(used=1), node("b")], [replace(crashed, restarts=5)])
    assert given_up == [
        EndReplica("r1", "failed", "Given up after 5 restarts in a row. exit code 1"),
        PlaceReplica("d", None, "b", "gpu-b", 3 * GB, "Placed on cpu-0 of b"),
    ]


def test_what_failed_everywhere_is_tried_again_ever_more_rarely() -> None:
    def failures(count: int, last_s_ago: float) -> tuple[Failure, ...]:
        return tuple(Failure("d", "a", NOW - last_s_ago - n, f"exit code {n}.") for n in range(count))

    reason = "It failed 2 times where it could run. Last on a: exit code 0. The next try is 120 s after the last"
    assert plan([node()], [], failures=failures(1, 59)) != []
    assert isinstance(plan([node()], [], failures=failures(1, 61))[0], PlaceReplica)
    assert plan([node()], [], failures=failures(2, 61)) == [CreateReplica("d", reason)]
    assert isinstance(plan([node()], [], failures=failures(2, 121))[0], PlaceReplica)
    assert isinstance(plan([node()], [], failures=failures(30, 601))[0], PlaceReplica)
    assert plan([node(), node("b")], [], failures=failures(1, 1))[0].node == "b"  # type: ignore[union-attr]


def test_a_silent_runtime_is_lost_after_its_grace_and_replaced_in_the_same_tick() -> None:
    silent = replica(missing_since=NOW - 5)
    assert plan([node(used=1)], [replace(silent, missing_since=NOW - 4.9)]) == []
    assert plan([node(used=1)], [silent]) == [
        MarkLost("r1", "The runtime on a sent no sign of life for 15 s"),
        PlaceReplica("d", None, "a", "gpu-a", 3 * GB, "Placed on cpu-0 of a"),
    ]
    for state in ("placing", "loading", "failed", "lost"):  # there the agent's word counts
        assert plan([node(used=1)], [replace(silent, state=state)]) == []


def test_a_silent_node_loses_what_runs_there_unless_the_runtime_is_heard() -> None:
    quiet = node(used=1, heard=NOW - 16)
    loading = replica(state="loading", missing_since=NOW - 5)
    assert plan([quiet, node("b")], [loading])[0] == MarkLost("r1", "Neither node a nor the runtime was heard for 15 s")
    assert plan([quiet, node("b")], [replace(loading, missing_since=None)]) == []
    assert plan([node(used=1, heard=NOW - 14), node("b")], [loading]) == []


def test_nothing_is_lost_while_blind_or_within_a_grace_of_seeing_again() -> None:
    silent = replica(missing_since=NOW - 9)
    assert plan([node(used=1)], [silent], since=None) == []
    assert plan([node(used=1)], [silent], since=NOW - 14.9) == []
    assert isinstance(plan([node(used=1)], [silent], since=NOW - 15)[0], MarkLost)


def test_the_unwanted_end_when_their_agent_says_so_or_is_gone_for_good() -> None:
    unwanted = replica(run=False, state="draining", reason="Scaled down")
    assert plan([node()], [unwanted], 0) == []
    assert plan([node()], [replace(unwanted, state="stopped")], 0) == [EndReplica("r1", "stopped", "Scaled down")]
    assert plan([], [unwanted], 0) == [EndReplica("r1", "stopped", "Scaled down")]
    lost = replace(unwanted, state="lost")
    assert plan([node(heard=NOW - 599)], [lost], 0) == []
    assert plan([node(heard=NOW - 601)], [lost], 0) == [EndReplica("r1", "lost", "Node a was not heard for 10 minutes")]


def test_a_draining_node_is_emptied_only_once_another_is_ready_elsewhere() -> None:
    nodes = [node("a", used=1, cordoned=True, draining=True), node("b")]
    leaving = replica()
    successor = replica("r2", node="b", device="gpu-b", state="loading")
    assert plan(nodes, [leaving]) == [PlaceReplica("d", None, "b", "gpu-b", 3 * GB, "Placed on cpu-0 of b")]
    assert plan(nodes, [leaving, successor]) == []
    ready = replace(successor, state="ready")
    why = "Node a is drained: 1 of 1 replicas are ready elsewhere"
    assert plan(nodes, [leaving, ready]) == [DrainReplica("r1", why)]
    assert plan(nodes, [leaving, replace(ready, missing_since=NOW - 1)]) == []  # is it? the next look says
    assert plan(nodes, [leaving], 0) == [DrainReplica("r1", "Its deployment was stopped")]


def test_a_drain_without_room_says_so_and_keeps_serving() -> None:
    nodes = [node("a", used=1, cordoned=True, draining=True), node("b", used=4)]
    reason = "No device has 3.0 GB free: b cpu-0 has 0.0 GB of 24.0 GB"
    assert plan(nodes, [replica()]) == [CreateReplica("d", reason)]
    waits = waiting("r2", reason=reason)
    assert plan(nodes, [replica(), waits]) == []
    uncordoned = [replace(nodes[0], cordoned=False, draining=False), nodes[1]]
    assert plan(uncordoned, [replica(), waits]) == [EndReplica("r2", "stopped", "Scaled down")]


def test_of_several_as_many_leave_as_others_stand_in_for() -> None:
    nodes = [node("a", used=2, cordoned=True, draining=True), node("b", used=1)]
    rows = [
        replica("old", created_at=1),
        replica("new", created_at=2),
        replica("there", node="b", device="gpu-b"),
        replica("loads", node="b", device="gpu-b", state="loading"),
    ]
    assert plan(nodes, rows, 2) == [DrainReplica("new", "Node a is drained: 1 of 2 replicas are ready elsewhere")]
    assert plan(nodes, rows, 1)[0] == DrainReplica("loads", "Scaled down")


def decisions(*args: Any, **kwargs: Any) -> list[Any]:
    return [one.decision for one in whole_plan(*args, **kwargs).decisions]


def test_a_placement_says_how_each_device_was_judged() -> None:
    world = [node("a", used=4), node("b", used=1), node("c", cordoned=True), node("e", heard=NOW - 9), node("f")]
    sibling = replica("r0", node="b", device="gpu-b")
    (made,) = decisions(world, [sibling], 2)
    assert (made.kind, made.node, made.device, made.replica) == ("place", "f", "gpu-f", "")
    assert made.why == (
        "the best of 2 devices with room: none of its replicas failed here, none of its replicas is here"
    )
    judged = {found.node: (found.fits, found.why_not, found.score) for found in made.candidates}
    assert judged == {
        "a": (False, "needs 1 of 4 units (3.0 GB); 0 are free (0.0 GB)", None),
        "b": (True, "", 2.0),
        "c": (False, "the node is cordoned", None),
        "e": (False, "the node was not heard for 9 s", None),
        "f": (True, "", 3.0),
    }
    assert made.candidates[0].node == "f"
    assert made.inputs["siblings_on"] == ["b"]
    assert (made.inputs["service_class"], made.inputs["wanted"], made.inputs["memory_bytes"]) == ("chat", 2, 3 * GB)


def test_who_waits_is_refused_anew_at_each_look_with_the_same_words() -> None:
    reason = "No device has 19.0 GB free: a cpu-0 has 18.0 GB of 24.0 GB"
    row = waiting(memory_bytes=19 * GB, reason=reason)
    first, again = (decisions([node(used=1)], rows, gb=19) for rows in ([], [row]))
    assert [(made.kind, made.why, made.node) for made in (*first, *again)] == [("refuse", reason, "")] * 2
    assert first[0].candidates[0].why_not == "needs 4 of 4 units (19.0 GB); 3 are free (18.0 GB)"
    failed = (Failure("d", "a", NOW - 1, "exit code 1"),)
    (held,) = decisions([node("a"), node("b", used=4)], [], failures=failed)
    assert "Last on a: exit code 1." in held.why
    assert held.candidates[0].why_not == "a replica of it failed here; it is tried again later"


def test_scaling_replacing_and_draining_are_decisions_too() -> None:
    (scaled,) = decisions([node()], [replica("old", created_at=1), replica("new", created_at=2)])
    assert (scaled.kind, scaled.replica, scaled.why, scaled.inputs["had"]) == ("scale", "new", "Scaled down", 2)
    lost, placed = decisions([node(used=1)], [replica(missing_since=NOW - 9)])
    assert (lost.kind, lost.replica, lost.inputs["missing_s"], placed.kind) == ("replace", "r1", 9.0, "place")
    given_up, _ = decisions([node(used=1), node("b")], [replica(state="failed", restarts=5, reason="exit code 1")])
    assert (given_up.kind, given_up.inputs["last_reason"]) == ("replace", "exit code 1")
    nodes = [node("a", used=1, cordoned=True, draining=True), node("b", used=1)]
    (moved,) = decisions(nodes, [replica(), replica("r2", node="b", device="gpu-b")])
    assert (moved.kind, moved.node, moved.inputs["ready_elsewhere"]) == ("drain", "a", 1)


def test_of_a_large_fleet_the_chosen_and_the_best_are_kept() -> None:
    fleet = [node(f"n{index:04}", used=4 if index % 2 else 3) for index in range(1000)]
    (made,) = decisions(fleet, [])
    assert len(made.candidates) == 24
    assert made.candidates[0].node == made.node == "n0000"
    assert all(found.fits for found in made.candidates)
    assert made.inputs["devices"] == 1000


def test_replicas_of_a_vanished_deployment_are_drained() -> None:
    assert plan([node()], [replica(deployment="other")], 0) == [DrainReplica("r1", "Its deployment is gone")]


# --- what holds in every world ------------------------------------------------------------------------------------


class Simulation:
    """Applies actions as the services do, and plays perfect agents on demand."""

    def __init__(self, world: ObservedWorld, desired: DesiredWorld) -> None:
        self.world, self.desired, self.now, self.made = world, desired, NOW, 0

    def tick(self) -> list[Action]:
        actions = reconcile(self.world, self.desired, self.now).actions
        for action in actions:
            self._apply(action)
        return actions

    def _apply(self, action: Action) -> None:
        rows = {row.id: row for row in self.world.replicas}
        failures = self.world.failures
        match action:
            case CreateReplica(deployment, reason):
                self._insert(rows, deployment, node=None, device=None, reason=reason)
            case PlaceReplica(deployment, None, node_id, device, _, reason):
                self._insert(rows, deployment, node=node_id, device=device, reason=reason)
            case PlaceReplica(_, str(name), node_id, device, _, reason):
                rows[name] = replace(rows[name], node=node_id, device=device, reason=reason)
            case DrainReplica(name, reason):
                rows[name] = replace(rows[name], run=False, state="draining", reason=reason)
            case MarkLost(name, reason):
                rows[name] = replace(rows[name], run=False, state="lost", reason=reason)
            case Explain(name, reason):
                rows[name] = replace(rows[name], reason=reason)
            case EndReplica(name, state, reason):
                row = rows.pop(name)
                if state == "failed" and row.node is not None:
                    failures = (*failures, Failure(row.deployment, row.node, self.now, reason))
        self.world = replace(self.world, replicas=tuple(rows.values()), failures=failures)
        self._count_units()

    def _insert(self, rows: dict[str, Replica], deployment: str, **changes: Any) -> None:
        self.made += 1
        memory = next(d.memory_bytes for d in self.desired.deployments if d.id == deployment)
        row = replica(f"new{self.made}", deployment=deployment, state="placing", memory_bytes=memory, **changes)
        rows[row.id] = replace(row, created_at=self.now + self.made)

    def _count_units(self) -> None:
        self.world = replace(self.world, nodes=tuple(seated(node, self.world.replicas) for node in self.world.nodes))

    def agents_act(self) -> None:
        """What runs becomes ready, what drains stops."""
        rows = [
            replace(row, state="ready", missing_since=None, restarts=0)
            if row.run and row.node is not None
            else replace(row, state="stopped" if row.node is not None else row.state)
            for row in self.world.replicas
        ]
        self.world = replace(self.world, replicas=tuple(rows))


def seated(node: Node, rows: tuple[Replica, ...]) -> Node:
    return replace(
        node,
        devices=tuple(
            replace(device, used_units=sum(device.units_for(r.memory_bytes) for r in rows if r.device == device.id))
            for device in node.devices
        ),
    )


@st.composite
def worlds(draw: st.DrawFn) -> Simulation:
    nodes = [
        Node(
            id=f"n{index}",
            name=f"n{index}",
            heard_at=NOW - draw(st.sampled_from([0, 0, 0, 4, 20, 700])),
            cordoned=draw(st.sampled_from([False, False, True])),
            draining=draw(st.sampled_from([False, False, True])),
            devices=tuple(
                Device(f"n{index}-g{g}", f"gpu-{g}", draw(st.sampled_from([8, 24, 80])) * GB, units=u)
                for g, u in enumerate(draw(st.lists(st.sampled_from([1, 4, 8]), min_size=1, max_size=3)))
            ),
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    deployments = tuple(
        Deployment(f"d{i}", f"dep{i}", draw(st.integers(0, 4)), draw(st.integers(1, 30)) * GB)
        for i in range(draw(st.integers(0, 3)))
    )
    rows: list[Replica] = []
    for index in range(draw(st.integers(0, 8))):
        state = draw(st.sampled_from(["placing", "loading", "ready", "draining", "lost", "failed", "stopped"]))
        row = waiting(
            f"r{index}",
            deployment=f"d{draw(st.integers(0, 3))}",
            run=state not in ("draining", "lost") and draw(st.booleans()),
            memory_bytes=draw(st.integers(1, 30)) * GB,
            created_at=draw(st.integers(0, 5)),
            restarts=draw(st.sampled_from([0, 0, 2, 5])),
            missing_since=draw(st.sampled_from([None, None, NOW - 2, NOW - 50])),
        )
        place = draw(st.sampled_from([None, *[(n, d) for n in nodes for d in n.devices]]))
        if place is not None:
            n, device = place
            fits = seated(n, tuple(rows))
            free = next(d.free_units for d in fits.devices if d.id == device.id)
            if device.units_for(row.memory_bytes) <= free:
                row = replace(row, node=n.id, device=device.id, state=state)
        rows.append(row)
    since = draw(st.sampled_from([None, NOW - 3, NOW - 1000]))
    world = ObservedWorld(tuple(seated(n, tuple(rows)) for n in nodes), tuple(rows), since)
    return Simulation(world, DesiredWorld(deployments))


def usable(sim: Simulation) -> list[Node]:
    return [n for n in sim.world.nodes if n.heard(sim.now) and not n.cordoned and not n.draining]


def running(sim: Simulation, deployment: str) -> list[Replica]:
    return [row for row in sim.world.replicas if row.deployment == deployment and row.run]


def leaves(sim: Simulation, row: Replica) -> bool:
    return row.node in {n.id for n in sim.world.nodes if n.draining}


def serving(sim: Simulation, deployment: str) -> int:
    return sum(row.state == "ready" and row.missing_since is None for row in running(sim, deployment))


@given(worlds())
def test_whatever_is_drained_never_fewer_serve_than_are_wanted_or_did(sim: Simulation) -> None:
    for _ in range(6):
        before = {deployment.id: serving(sim, deployment.id) for deployment in sim.desired.deployments}
        sim.tick()
        for deployment in sim.desired.deployments:
            assert serving(sim, deployment.id) >= min(deployment.count, before[deployment.id])
        sim.agents_act()


@given(worlds())
def test_a_draining_node_ends_empty_where_there_is_room(sim: Simulation) -> None:
    for _ in range(6):
        sim.tick()
        sim.agents_act()
    held = {failure.deployment for failure in sim.world.failures}
    for row in sim.world.replicas:
        if row.run and leaves(sim, row):
            waits = [r for r in running(sim, row.deployment) if r.node is None]
            assert waits or row.deployment in held
            assert all(r.reason for r in waits)


@given(worlds())
def test_every_action_that_a_person_would_ask_about_has_its_decision(sim: Simulation) -> None:
    plan = reconcile(sim.world, sim.desired, sim.now)
    told = [one.action for one in plan.decisions if one.action is not None]
    assert all(any(action is other for other in plan.actions) for action in told)
    for action in plan.actions:
        if isinstance(action, PlaceReplica | DrainReplica | MarkLost):
            assert sum(action is other for other in told) == 1
    for one in plan.decisions:
        assert one.decision.why
        if one.decision.kind == "place":
            chosen = [found for found in one.decision.candidates if found.device_id == one.decision.device]
            assert [found.fits for found in chosen] == [True]


@given(worlds())
def test_one_tick_settles_and_a_second_has_nothing_to_add(sim: Simulation) -> None:
    sim.tick()
    assert sim.tick() == []


@given(worlds())
def test_no_device_is_ever_booked_beyond_its_units(sim: Simulation) -> None:
    for _ in range(4):
        sim.tick()
        assert all(d.used_units <= d.units for n in sim.world.nodes for d in n.devices)
        sim.agents_act()


@given(worlds())
def test_the_wanted_number_exists_and_none_waits_while_a_device_has_room(sim: Simulation) -> None:
    sim.tick()
    for deployment in sim.desired.deployments:
        rows = [row for row in running(sim, deployment.id) if not leaves(sim, row)]
        assert len(rows) == deployment.count
        assert sum(leaves(sim, row) for row in running(sim, deployment.id)) <= deployment.count
        held = {failure.deployment for failure in sim.world.failures}
        for row in rows:
            if row.node is None and deployment.id not in held:
                assert not any(d.units_for(row.memory_bytes) <= d.free_units for n in usable(sim) for d in n.devices)
                assert row.reason


@given(worlds())
def test_a_live_replica_is_touched_only_to_scale_down(sim: Simulation) -> None:
    counts = {deployment.id: deployment.count for deployment in sim.desired.deployments}
    live = [r for r in sim.world.replicas if r.run and r.state == "ready" and r.missing_since is None and r.node]
    live = [r for r in live if not leaves(sim, r)]
    within = [r for r in live if len(running(sim, r.deployment)) <= counts.get(r.deployment, 0)]
    touched = {getattr(action, "replica", None) for action in sim.tick()}
    assert not touched & {r.id for r in within}


@given(worlds())
def test_blind_it_loses_nothing(sim: Simulation) -> None:
    sim.world = replace(sim.world, observing_since=None)
    assert not any(isinstance(action, MarkLost) for action in sim.tick())


@given(worlds())
def test_it_settles_for_good_within_a_few_ticks_of_perfect_agents(sim: Simulation) -> None:
    for _ in range(6):
        sim.tick()
        sim.agents_act()
    assert sim.tick() == []
