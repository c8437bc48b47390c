"""What must hold for every world: see ``Simulation``, which applies actions in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.worlds import GB, NOW, replica, waiting
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
    Replica,
)


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
