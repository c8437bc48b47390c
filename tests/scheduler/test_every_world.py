"""What must hold for every world: see ``Simulation``, which applies actions in memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from helpers.cut_worlds import could_sit, fits, gpu, seats_of_world, too_close, wrong
from helpers.fleets import A30, mig, mps, whole
from helpers.simulation import Simulation, seated
from helpers.worlds import GB, NOW, waiting
from scheduler.geometry.boards import board
from scheduler.packing.model import EVERY_KIND, Demand, Isolation, Seat
from scheduler.reconcile import reconcile
from scheduler.world import (
    Deployment,
    DesiredWorld,
    Device,
    DrainReplica,
    MarkLost,
    Node,
    ObservedWorld,
    Place,
    PlaceReplica,
    Replica,
)

MIG_ONLY = {mig("1g.6gb", A30): 1.0, mig("2g.12gb", A30): 2.0, mig("4g.24gb", A30): 4.0, whole(A30): 4.0}
SHARED = {mps(2, A30): 2.0, mps(4, A30): 1.0, whole(A30): 4.0}
RATES = ((Isolation.MIG, MIG_ONLY), (Isolation.TIME_SLICE, SHARED | MIG_ONLY), (Isolation.WHOLE, {whole(A30): 4.0}))
PLACES = [
    Place(slot, start)
    for slot in SHARED | MIG_ONLY
    for start in board(A30).cut(slot.kind.cut).profile(slot.profile).starts
]


@st.composite
def devices(draw: st.DrawFn, name: str) -> tuple[Device, ...]:
    found = []
    for number, units in enumerate(draw(st.lists(st.sampled_from([1, 4, 8, 0, 0]), min_size=1, max_size=3))):
        if units:
            size = draw(st.sampled_from([8, 24, 80]))
            found.append(Device(f"{name}-g{number}", f"gpu-{number}", size * GB, units=units))
            continue
        blocked = draw(st.sampled_from([(), (), (("1g.6gb", 0),), (("2g.12gb", 2),)]))
        health = draw(st.sampled_from([{}, {}, {"unfit": "it is suspect"}, {"unfit": "it fails", "leaving": True}]))
        kinds = EVERY_KIND if blocked else draw(st.sampled_from([EVERY_KIND, frozenset({Isolation.WHOLE})]))
        found.append(gpu(f"{name}-g{number}", A30, blocked=blocked, kinds=kinds, **health))
    return tuple(found)


@st.composite
def deployments(draw: st.DrawFn, number: int) -> Deployment:
    count = draw(st.integers(0, 4))
    name, demand = f"d{number}", None
    if draw(st.booleans()):
        isolation, rates = draw(st.sampled_from(RATES))
        trust = draw(st.sampled_from(["x", "y"]))
        least = draw(st.sampled_from([1, 1, max(1, count)]))
        goodput = draw(st.sampled_from([1.0, 3.0]))
        demand = Demand(name, "m", trust, goodput, rates, 1.0, isolation=isolation, min_replicas=least)
    return Deployment(name, f"dep{number}", count, draw(st.integers(1, 30)) * GB, demand=demand)


@st.composite
def rows(draw: st.DrawFn, index: int, nodes: list[Node], known: list[Replica], wanted: list[Deployment]) -> Replica:
    state = draw(st.sampled_from(["placing", "loading", "ready", "ready", "draining", "lost", "failed", "stopped"]))
    of = draw(st.integers(0, 3))
    demand = wanted[of].demand if of < len(wanted) else None
    row = waiting(
        f"r{index}",
        deployment=f"d{of}",
        trust=demand.trust if demand is not None else "z",
        run=state not in ("draining", "lost") and draw(st.sampled_from([True, True, False])),
        memory_bytes=draw(st.integers(1, 30)) * GB,
        created_at=NOW - 100 + draw(st.integers(0, 5)),
        restarts=draw(st.sampled_from([0, 0, 2, 5])),
        missing_since=draw(st.sampled_from([None, None, NOW - 2, NOW - 50])),
        replaces=draw(st.sampled_from(["", "", *[other.id for other in known if other.deployment == f"d{of}"]])),
    )
    spot = draw(st.sampled_from([None, *[(n, d) for n in nodes for d in n.devices]]))
    if spot is None:
        return row
    node, device = spot
    world = ObservedWorld(tuple(nodes), tuple(known), NOW)
    if not device.board:
        free = next(d.free_units for d in seated(node, tuple(known)).devices if d.id == device.id)
        fit = device.units_for(row.memory_bytes) <= free
        return replace(row, node=node.id, device=device.id, state=state) if fit else row
    place = draw(st.sampled_from(PLACES))
    seat = Seat(row.id, row.deployment, row.trust, device.id, place.slot, place.start)
    there = [other for other in seats_of_world(world) if other.gpu == device.id]
    if place.slot.kind in device.kinds and fits(there, seat):
        return replace(row, node=node.id, device=device.id, state=state, place=place)
    return row


@st.composite
def worlds(draw: st.DrawFn) -> Simulation:
    nodes = [
        Node(
            id=f"n{index}",
            name=f"n{index}",
            heard_at=NOW - draw(st.sampled_from([0, 0, 0, 4, 20, 700])),
            cordoned=draw(st.sampled_from([False, False, True])),
            draining=draw(st.sampled_from([False, False, True])),
            devices=draw(devices(f"n{index}")),
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    wanted = [draw(deployments(number)) for number in range(draw(st.integers(0, 3)))]
    known: list[Replica] = []
    for index in range(draw(st.integers(0, 8))):
        known.append(draw(rows(index, nodes, known, wanted)))
    since = draw(st.sampled_from([None, NOW - 3, NOW - 1000]))
    world = ObservedWorld(tuple(seated(n, tuple(known)) for n in nodes), tuple(known), since)
    return Simulation(world, DesiredWorld(tuple(wanted)))


def usable(sim: Simulation) -> list[Node]:
    return [n for n in sim.world.nodes if n.heard(sim.now) and not n.cordoned and not n.draining]


def running(sim: Simulation, deployment: str) -> list[Replica]:
    return [row for row in sim.world.replicas if row.deployment == deployment and row.run]


def leaves(sim: Simulation, row: Replica) -> bool:
    emptied = {d.id for n in sim.world.nodes for d in n.devices if d.leaving}
    demand, kind = demands_of(sim).get(row.deployment), Isolation.MPS
    if row.place is not None:
        kind = row.place.slot.kind
    too_open = demand is not None and row.node is not None and kind < demand.isolation
    return row.node in {n.id for n in sim.world.nodes if n.draining} or row.device in emptied or too_open


def ready(row: Replica) -> bool:
    return row.state == "ready" and row.missing_since is None


def heir(sim: Simulation, row: Replica) -> bool:
    """Whether it only waits to replace another, which counts."""
    known = {other.id: other for other in running(sim, row.deployment)}
    old = known.get(row.replaces)
    return old is not None and (leaves(sim, row) or not leaves(sim, old))


def demands_of(sim: Simulation) -> dict[str, Demand]:
    return {one.id: one.demand for one in sim.desired.deployments if one.demand is not None and one.count}


def guaranteed(deployment: Deployment) -> int:
    """How many of its replicas never give way to others."""
    return deployment.count if deployment.demand is None else min(deployment.count, deployment.demand.min_replicas)


def serving(sim: Simulation, deployment: str) -> int:
    """One that is ready to replace another counts for both."""
    mine = running(sim, deployment)
    replaced = {row.replaces for row in mine if ready(row)}
    return sum(ready(row) and row.id not in replaced for row in mine)


@given(worlds())
def test_whatever_is_drained_never_fewer_serve_than_are_wanted_or_did(sim: Simulation) -> None:
    for _ in range(6):
        before = {deployment.id: serving(sim, deployment.id) for deployment in sim.desired.deployments}
        sim.tick()
        for deployment in sim.desired.deployments:
            assert serving(sim, deployment.id) >= min(guaranteed(deployment), before[deployment.id])
        sim.agents_act()


@given(worlds())
def test_a_draining_node_or_device_ends_empty_where_there_is_room(sim: Simulation) -> None:
    for _ in range(8):
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
            best = max(found.score for found in one.decision.candidates if found.score is not None)
            assert chosen[0].score == best


@given(worlds())
def test_one_tick_settles_and_a_second_has_nothing_to_add(sim: Simulation) -> None:
    sim.tick()
    assert sim.tick() == []


@given(worlds())
def test_no_unit_is_booked_twice_and_no_isolation_broken(sim: Simulation) -> None:
    odd = set(too_close(sim.world, demands_of(sim), ()))
    for _ in range(4):
        sim.tick()
        assert all(d.used_units <= d.units for n in sim.world.nodes for d in n.devices if not d.board)
        going = {row.id for row in sim.world.replicas if not row.run or leaves(sim, row) or heir(sim, row)}
        assert wrong(sim.world, demands_of(sim), going) == []
        if not odd:
            assert too_close(sim.world, demands_of(sim), going) == []
        sim.agents_act()


@given(worlds())
def test_the_wanted_number_exists_and_none_waits_while_a_device_has_room(sim: Simulation) -> None:
    sim.tick()
    held = {failure.deployment for failure in sim.world.failures}
    for deployment in sim.desired.deployments:
        rows = [row for row in running(sim, deployment.id) if not leaves(sim, row) and not heir(sim, row)]
        assert len(rows) == deployment.count
        leaving = [row for row in running(sim, deployment.id) if leaves(sim, row)]
        assert len(leaving) <= deployment.count + sum(heir(sim, row) for row in leaving)
        demand = deployment.demand
        for row in rows:
            if row.node is not None or deployment.id in held:
                continue
            assert row.reason
            there = [d for n in usable(sim) for d in n.devices if not d.unfit and not d.leaving]
            if demand is None or demand.isolation < Isolation.MIG:
                plain = [d for d in there if not d.board]
                assert not any(d.units_for(row.memory_bytes) <= d.free_units for d in plain)
            if demand is not None and demand.min_replicas >= deployment.count:
                assert not could_sit(sim.world, demand, [d for d in there if d.board])


@given(worlds())
def test_a_live_replica_is_touched_only_to_scale_down(sim: Simulation) -> None:
    counts = {deployment.id: guaranteed(deployment) for deployment in sim.desired.deployments}
    live = [r for r in sim.world.replicas if r.run and ready(r) and r.node and not leaves(sim, r)]
    taken_over = {r.replaces for r in sim.world.replicas if r.run and ready(r)}
    within = [r for r in live if len(running(sim, r.deployment)) <= counts.get(r.deployment, 0)]
    within = [r for r in within if r.id not in taken_over and not heir(sim, r)]
    touched = {getattr(action, "replica", None) for action in sim.tick()}
    assert not touched & {r.id for r in within}


@given(worlds())
def test_blind_it_loses_nothing(sim: Simulation) -> None:
    sim.world = replace(sim.world, observing_since=None)
    assert not any(isinstance(action, MarkLost) for action in sim.tick())


@given(worlds())
def test_it_settles_for_good_within_a_few_ticks_of_perfect_agents(sim: Simulation) -> None:
    for _ in range(8):
        sim.tick()
        sim.agents_act()
    assert sim.tick() == []
