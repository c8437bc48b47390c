"""A plan's moves, carried out in a world in memory: wave by wave, and what ends them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from helpers.cut_worlds import gpu_node, sitting, wrong
from helpers.fleets import demand, mig
from helpers.simulation import Simulation
from helpers.worlds import GB, NOW
from scheduler.packing.compact import Change
from scheduler.packing.model import Demand, Isolation
from scheduler.packing.moves import order
from scheduler.packing.online import Policy
from scheduler.packing.plans import Rules
from scheduler.planner.execution import Step, advance, held_by, moves_of, unwanted_by
from scheduler.planner.fleet import books_of, fleet_of
from scheduler.planner.plans import counts, plan_fleet, record
from scheduler.world import Deployment, DesiredWorld, DrainReplica, Failure, ObservedWorld, Replica

FOUR = {mig("4g.40gb"): 400.0}


def world(gpus: int, *rows: Replica, rates: dict[Any, float] | None = None) -> Simulation:
    """Each replica is of a deployment of its own, named as the replica is without its number."""
    rates = rates or FOUR
    names = dict.fromkeys(row.id.rstrip("0123456789") for row in rows)
    rows = tuple(replace(row, deployment=row.id.rstrip("0123456789"), trust="t") for row in rows)
    wanted = tuple(
        Deployment(name, f"dep-{name}", sum(row.deployment == name for row in rows), 3 * GB, demand=needs(name, rates))
        for name in names
    )
    return Simulation(ObservedWorld((gpu_node("n", gpus),), rows, 0), DesiredWorld(wanted))


def needs(name: str, rates: dict[Any, float]) -> Demand:
    return demand(name, rates, 1.0, trust="t")


def waves_to(sim: Simulation, **goals: tuple[str, int]) -> list[dict[str, Any]]:
    """The waves, as they are stored, that lead each named replica to its GPU and start."""
    demands = {one.id: one.demand for one in sim.desired.deployments if one.demand is not None}
    books, _ = books_of(sim.world.nodes, sim.world.replicas, NOW, demands=demands)
    changes = [
        Change(books.seats[name], replace(books.seats[name], gpu=gpu, start=start))
        for name, (gpu, start) in goals.items()
    ]
    found = order(books, demands, changes, may_interrupt=False)
    return json.loads(json.dumps([told(wave) for wave in found.waves]))  # type: ignore[no-any-return]


def told(wave: Any) -> dict[str, Any]:
    def spot(seat: Any) -> dict[str, Any]:
        slot = {"board": seat.slot.board, "kind": seat.slot.kind.label, "profile": seat.slot.profile}
        return {"gpu": seat.gpu, "slot": slot, "start": seat.start}

    starts = [
        {"instead_of": one.instead_of, "deployment": one.seat.demand, "burst": False, "to": spot(one.seat)}
        for one in wave.starts
    ]
    return {"starts": starts}


class Execution:
    def __init__(self, sim: Simulation, waves: list[dict[str, Any]]) -> None:
        self.sim, self.waves, self.done, self.since = sim, waves, 0, sim.now

    def look(self) -> Step:
        sim = self.sim
        return advance(self.waves, sim.world, sim.desired, sim.now, done=self.done, since=self.since)

    def tick(self) -> Step:
        """What the scheduler does at each look: the plan first, then the reconciler."""
        sim = self.sim
        sim.desired = replace(sim.desired, held=held_by(self.waves, self.done))
        step = self.look()
        if step.wave != self.done:
            self.done, self.since = step.wave, sim.now
        sim.apply([*step.begin, *step.drop])
        sim.tick()
        assert wrong(sim.world, {one.id: one.demand for one in sim.desired.deployments if one.demand}) == []
        sim.now += 2.0
        sim.world = replace(sim.world, nodes=tuple(replace(node, heard_at=sim.now) for node in sim.world.nodes))
        return step

    def run(self, ticks: int = 20) -> Step:
        for _ in range(ticks):
            step = self.tick()
            if step.state != "running":
                break
            self.sim.agents_act()
        return step


def where(sim: Simulation) -> dict[str, tuple[str | None, int]]:
    return {row.deployment: (row.device, row.place.start) for row in sim.world.replicas if row.run and row.place}


def test_a_move_is_made_before_the_old_one_breaks() -> None:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    run = Execution(sim, waves_to(sim, a=("n-1", 0)))
    assert run.tick().begin[0].replaces == "a"
    assert [(row.device, row.run) for row in sim.world.replicas] == [("n-0", True), ("n-1", True)]
    assert run.tick().begin == ()  # asked again while it loads: nothing more
    sim.agents_act()
    assert run.run().state == "done"
    assert where(sim) == {"a": ("n-1", 0)}
    assert sim.tick() == []


def test_two_that_wait_for_each_other_pass_over_a_third_gpu() -> None:
    sim = world(3, sitting("a", "n-0", mig("4g.40gb")), sitting("b", "n-1", mig("4g.40gb")))
    waves = waves_to(sim, a=("n-1", 0), b=("n-0", 0))
    assert len(waves) == 3
    assert Execution(sim, waves).run(30).state == "done"
    assert where(sim) == {"a": ("n-1", 0), "b": ("n-0", 0)}
    assert sim.tick() == []


def test_it_goes_on_where_it_was_from_what_it_sees_alone() -> None:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    run = Execution(sim, waves_to(sim, a=("n-1", 0)))
    run.tick()
    sim.agents_act()
    sim.tick()  # the reconciler alone: the old one drains
    sim.agents_act()
    sim.tick()
    fresh = Execution(sim, run.waves)  # the scheduler restarted
    assert fresh.tick().state == "done"


def test_who_is_gone_by_itself_is_not_moved() -> None:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    waves = waves_to(sim, a=("n-1", 0))
    sim.world = replace(sim.world, replicas=())
    assert advance(waves, sim.world, sim.desired, sim.now, done=0, since=sim.now).state == "done"


def begun() -> tuple[Simulation, Execution]:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    run = Execution(sim, waves_to(sim, a=("n-1", 0)))
    run.tick()
    return sim, run


def test_a_failed_start_ends_it_with_the_reason() -> None:
    sim, run = begun()
    gone = tuple(row for row in sim.world.replicas if row.id == "a")
    failed = (Failure("a", "n", sim.now, "out of memory"),)
    sim.world = replace(sim.world, replicas=gone, failures=failed)
    step = run.tick()
    assert (step.state, step.why) == ("abandoned", "A start on n failed: out of memory")
    earlier = (Failure("a", "n", run.since - 1, "long ago"),)
    sim.world = replace(sim.world, failures=earlier)
    assert run.tick().state == "running"


def test_a_wave_that_takes_too_long_ends_it_and_lets_the_newcomer_go() -> None:
    sim, run = begun()
    sim.now += 901
    step = run.look()
    assert step.state == "abandoned"
    assert "Wave 1 was not through after 15 minutes: new00001 is placing" in step.why
    assert [one.replica for one in step.drop] == ["new00001"]
    assert isinstance(step.drop[0], DrainReplica)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("taken", "Others have mig 4g.40gb at 0 of n gpu-1 by now"),
        ("unfit", "n gpu-1 takes nothing new: it is suspect"),
        ("gone", "The GPU n-1 is gone"),
        ("stricter", "dep-a does not fit h100-sxm-80gb mig 4g.40gb any more"),
        ("near", "Another replica of dep-a came too near to mig 4g.40gb at 0 of n gpu-1"),
    ],
)
def test_what_came_between_ends_it(what: str, reason: str) -> None:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    waves = waves_to(sim, a=("n-1", 0))
    (node,) = sim.world.nodes
    first, second = node.devices
    (one,) = sim.desired.deployments
    assert one.demand is not None
    if what == "taken":
        other = sitting("x", "n-1", mig("1g.10gb"), 0, deployment="x", trust="t")
        sim.world = replace(sim.world, replicas=(*sim.world.replicas, other))
    elif what == "near":
        other = sitting("a2", "n-1", mig("1g.10gb"), 4, deployment="a", trust="t")
        sim.world = replace(sim.world, replicas=(*sim.world.replicas, other))
    elif what == "stricter":
        strict = replace(one, demand=replace(one.demand, isolation=Isolation.WHOLE))
        sim.desired = replace(sim.desired, deployments=(strict,))
    else:
        devices = (first, replace(second, unfit="it is suspect")) if what == "unfit" else (first,)
        sim.world = replace(sim.world, nodes=(replace(node, devices=devices),))
    step = advance(waves, sim.world, sim.desired, sim.now, done=0, since=sim.now)
    assert (step.state, step.why, step.begin) == ("abandoned", reason, ())


def test_it_waits_for_who_is_leaving_the_place() -> None:
    sim = world(2, sitting("a", "n-0", mig("4g.40gb")))
    waves = waves_to(sim, a=("n-1", 0))
    going = sitting("x", "n-1", mig("1g.10gb"), 0, deployment="x", trust="t", run=False, state="draining")
    sim.world = replace(sim.world, replicas=(*sim.world.replicas, going))
    step = advance(waves, sim.world, sim.desired, sim.now, done=0, since=sim.now)
    assert (step.state, step.begin) == ("running", ())
    assert step.why == "mig 4g.40gb at 0 of n gpu-1 is free once those that leave it are gone"


def test_a_plan_is_kept_as_data_with_names_figures_and_moves() -> None:
    rows = [sitting(name, f"n-{at}", mig("1g.10gb"), 6, created_at=0.0) for at, name in enumerate("abc")]
    sim = world(4, *rows, rates={mig("1g.10gb"): 100.0})
    demands = {one.id: one.demand for one in sim.desired.deployments if one.demand is not None}
    fleet = fleet_of(sim.world.nodes, sim.world.replicas, NOW, demands=demands)
    plan = plan_fleet(fleet, demands, now=NOW, policy=Policy(), rules=Rules(may_interrupt=False))
    names = {one.id: one.name for one in sim.desired.deployments}
    told = record(plan, fleet, demands, nodes=sim.world.nodes, names=names, policy=Policy())
    stored = json.loads(json.dumps(told))
    assert stored == told
    assert (told["before"]["gpus_in_use"], told["after"]["gpus_in_use"], told["moves"]) == (3, 1, 2)
    assert told["before"]["goodput"] == told["after"]["goodput"] == 3.0
    change = told["changes"][0]
    assert change["from"]["gpu_name"].startswith("gpu-")
    assert change["to"]["slot"] == {"board": "h100-sxm-80gb", "kind": "mig", "profile": "1g.10gb"}
    assert change["deployment_name"].startswith("dep-")
    assert "n-" not in change["why"]
    assert counts(plan, demands) == {"a": 1, "b": 1, "c": 1}
    assert len(moves_of(stored["waves"])[0]) >= 1
    assert Execution(sim, stored["waves"]).run(30).state == "done"
    assert len({row.device for row in sim.world.replicas}) == 1
    assert unwanted_by(stored["changes"]) == frozenset()
