"""A hundred random steps of a fleet of 64 GPUs through the real database: the rules of seats hold at every one.

Agents are played by the services that take their reports. People deploy, scale, stop, promise more; nodes fall silent,
are drained and come back; GPUs are fenced; runtimes crash; plans are made and carried out.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from django.db.models import F, Q

from berth.deployments.models import Deployment, DesiredState, Replica
from berth.deployments.replicas import create_replica
from berth.deployments.services import observe_replicas, scale_deployment, start_deployment, stop_deployment
from berth.fleet.health import clear_gpu, fence_gpu
from berth.fleet.models import Gpu, Health, Node, Seat, Slice, SliceUnit
from berth.fleet.services import cordon_node, desired_for, drain_node, observe_node, reserve_seat
from berth.fleet.slices import observe_slices
from berth.live import names
from berth.plans.models import Plan
from berth.slas.models import Contract, ServiceClass
from berth.slas.services import change_contract, create_class
from gpuruntime import protocol
from helpers.factories import cut_device, hello, make_deployment, make_model, make_node, make_tenant
from helpers.fleets import broken_rules
from scheduler import planning, tasks
from scheduler.geometry.boards import board
from scheduler.packing import model as packing
from scheduler.packing.model import ISOLATION
from scheduler.world import Place

pytestmark = pytest.mark.django_db

BOARDS = ("h100-sxm-80gb", "h100-sxm-80gb", "a100-40gb", "a30-24gb", "rtx-pro-6000-96gb")
STEPS, NODES, A_NODE = 100, 16, 4
TICK_S = 2.0


class House:
    def __init__(self, chance: random.Random, liveness: redis.Redis, nodes: int = NODES) -> None:
        self.chance, self.liveness = chance, liveness
        self.now = time.time()
        self.nodes = [self._node(n) for n in range(nodes)]
        self.silent: set[str] = set()
        self.crashed: dict[str, int] = {}
        self.recovering: set[str] = set()
        self.fenced: dict[str, datetime] = {}
        self.model = make_model()
        self.tenants = [make_tenant() for _ in range(3)]
        self.classes = [
            create_class(name=f"on-{kind}", isolation=kind, base_ms=1000, tpot_ms=100, actor="test")
            for kind in ISOLATION
        ]

    def _node(self, number: int) -> Node:
        key = BOARDS[number % len(BOARDS)]
        devices = [_gpu(number, index, key) for index in range(A_NODE)]
        node = make_node(f"node-{number:02}", *devices)
        return observe_node(node=node, seen=hello(node.name, *devices, provider="simulated"))

    # --- what happens ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        getattr(self, self.chance.choice(_EVENTS))()

    def deploy(self) -> None:
        if Deployment.objects.for_platform().count() < 40:
            make_deployment(
                tenant=self.chance.choice(self.tenants),
                model=self.model,
                service_class=self.chance.choice(self.classes),
                replica_count=self.chance.randint(1, 3),
            )

    def scale(self) -> None:
        if (row := self._any(_deployments())) is not None:
            scale_deployment(deployment=row, replicas=self.chance.randint(1, 4), actor="test")

    def stop_or_start(self) -> None:
        if (row := self._any(_deployments())) is not None:
            change = stop_deployment if row.desired_state == DesiredState.RUNNING else start_deployment
            change(deployment=row, actor="test")

    def promise(self) -> None:
        if (row := self._any(Contract.objects.for_platform().filter(valid_until=None))) is not None:
            rate = self.chance.choice([600, 600_000, 3_000_000])
            change_contract(contract=row, actor="test", guaranteed_tokens_per_min=rate, burst_tokens_per_min=rate // 2)

    def silence(self) -> None:
        if len(self.silent) < 3:
            self.silent.add(self.chance.choice(self.nodes).id)

    def hear(self) -> None:
        self.silent.clear()

    def drain(self) -> None:
        if Node.objects.filter(cordoned=True).count() < 3:
            drain_node(node=self.chance.choice(self.nodes), actor="test")

    def uncordon(self) -> None:
        for row in Node.objects.filter(cordoned=True):
            cordon_node(node=row, cordoned=False, actor="test")

    def fence(self) -> None:
        if len(self.fenced) < 4:
            row = self._any(Gpu.objects.all())
            assert row is not None
            fence_gpu(gpu=row, reason="made up", actor="test")
            self.fenced[row.id] = datetime.now(UTC)

    def clear(self) -> None:
        for gpu in Gpu.objects.filter(id__in=self.fenced, health=Health.FENCED):
            clear_gpu(gpu=gpu, actor="test")
        self.fenced.clear()

    def crash(self) -> None:
        if (row := self._any(Replica.objects.for_platform().filter(ended_at=None, state="ready"))) is not None:
            self.crashed[row.id] = self.chance.choice([1, 5])

    def plan(self) -> None:
        planning.plan_now(self.now)

    def half_an_hour_passes(self) -> None:
        """Whoever sat is old enough to be moved."""
        self.now += 1800

    def _any(self, rows: Any) -> Any:
        found = list(rows.order_by("id"))
        return self.chance.choice(found) if found else None

    # --- reports and ticks ----------------------------------------------------------------------------------------

    def tick(self) -> list[Any]:
        """Nodes of which nothing new is wanted, and on which nothing happened, only show that they are there."""
        self.now += TICK_S
        heard = Node.objects.exclude(id__in=self.silent)
        heard.update(last_seen_at=datetime.fromtimestamp(self.now, UTC))
        hit = Replica.objects.for_platform().filter(id__in=self.crashed).values_list("node_id", flat=True)
        hit = {node_id for node_id in hit if node_id is not None}
        for node in heard.filter(Q(observed_generation__lt=F("generation")) | Q(id__in=hit | self.recovering)):
            self._report(node)
        self.recovering = (self.recovering | hit) & self.silent | hit
        actions = tasks.tick(self.now)
        self.crashed.clear()
        return actions

    def _report(self, node: Node) -> None:
        """All is as it should be; what crashed says how often."""
        desired = desired_for(node)
        replicas = [self._replica(spec) for spec in desired.replicas]
        slices = [
            protocol.ObservedSlice(
                slice_id=one.slice_id, device_uuid=one.device_uuid, kind=one.kind, profile=one.profile,
                start=one.start, size=one.size, state="ready", uuid=f"MIG-{one.slice_id}",
            )
            for one in desired.slices
        ]  # fmt: skip
        seen = protocol.Observed(generation=desired.generation, devices=[], replicas=replicas, slices=slices)
        observe_replicas(node=node, observed=seen)
        observe_slices(node=node, gpus=node.gpus.all(), seen=slices)
        Node.objects.filter(id=node.id).update(observed_generation=desired.generation)

    def _replica(self, spec: protocol.ReplicaSpec) -> protocol.ObservedReplica:
        restarts = self.crashed.get(spec.replica_id, 0)
        state = ("lost" if restarts else "ready") if spec.run else "stopped"
        if state == "ready":
            self.liveness.set(names.alive(spec.replica_id), "e")
        return protocol.ObservedReplica(
            replica_id=spec.replica_id, state=state, alive=state == "ready", epoch="e", pid=7, port=9000,
            restarts=restarts,
        )  # fmt: skip

    # --- the rules ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        gpus = {row.id: row for row in Gpu.objects.select_related("node")}
        seats = list(Seat.objects.select_related("slice", "replica__deployment"))
        demands = {
            one.replica.deployment_id: packing.Demand(
                one.replica.deployment_id, "", "", 0.0, {}, isolation=_isolation(one.replica.deployment),
                spread=packing.Spread.NONE,
            )
            for one in seats
        }  # fmt: skip
        fleet = packing.Fleet(tuple(packing.Gpu(row.id, row.board, row.node_id, row.node_id) for row in gpus.values()))
        rows = [
            packing.Seat(
                one.replica_id, one.replica.deployment_id, one.replica.tenant_id, one.slice.gpu_id,
                packing.Slot(gpus[one.slice.gpu_id].board, ISOLATION[one.slice.kind], one.slice.profile),
                one.slice.start,
            )
            for one in seats
        ]  # fmt: skip
        assert broken_rules(fleet, rows, demands) == []
        self._units_are_those_of_the_slices(gpus)
        for one in seats:
            assert one.replica.ended_at is None
            fenced_at = self.fenced.get(one.slice.gpu_id)
            assert fenced_at is None or one.created_at <= fenced_at, "a fenced GPU took a new replica"
        running = Replica.objects.for_platform().filter(ended_at=None, state="ready")
        assert set(running.values_list("id", flat=True)) <= {one.replica_id for one in seats}, (
            "a live one lost its seat"
        )

    def _units_are_those_of_the_slices(self, gpus: dict[str, Gpu]) -> None:
        owned: dict[str, set[int]] = {}
        for slice_id, index in SliceUnit.objects.values_list("slice_id", "index"):
            owned.setdefault(slice_id, set()).add(index)
        slices = list(Slice.objects.all())
        for one in slices:
            key = gpus[one.gpu_id].board
            grain = board(key).units // board(key).cut(ISOLATION[one.kind].cut).units
            assert owned.get(one.id) == set(range(one.start * grain, (one.start + one.size) * grain))
        assert set(owned) == {one.id for one in slices}


_EVENTS = (
    *("deploy",) * 4, "scale", "scale", "stop_or_start", "promise", "silence", "hear", "hear", "drain", "uncordon",
    "uncordon", "fence", "clear", "crash", "crash", "plan", "plan", "plan",
    "half_an_hour_passes",
)  # fmt: skip


def _gpu(node: int, index: int, key: str) -> protocol.Device:
    """Every fourth node cannot do MIG."""
    kinds = ["whole", *(["mig"] if node % 4 != 3 else []), "mps", "time-slice"]
    return cut_device(key, index, uuid=f"SIM-{node}-{index}", kind="simulated", kinds=kinds)


def under_way() -> bool:
    return bool(Plan.objects.filter(state="running").exists())


def _deployments() -> Any:
    return Deployment.objects.for_platform()


def _isolation(deployment: Deployment) -> packing.Isolation:
    return ISOLATION[ServiceClass.objects.get(id=deployment.service_class_id).isolation]


def test_the_rules_hold_through_a_hundred_steps_and_what_is_asked_for_is_reached(
    liveness: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "ACT_FOR_S", 60.0)  # a slow machine is no reason for more ticks
    house = House(random.Random(11), liveness)
    for number in range(STEPS):
        house.step()
        house.tick()
        if number % 5 == 4:
            house.check()
    house.hear()
    house.uncordon()
    house.clear()
    for _ in range(100):
        if not under_way():
            break
        house.tick()
    assert not under_way(), "its moves came to no end"
    for _ in range(10):
        house.tick()
        house.check()
    ready = Replica.objects.for_platform().filter(ended_at=None, state="ready", run=True)
    for row in _deployments().filter(desired_state=DesiredState.RUNNING):
        assert ready.filter(deployment=row).count() == max(row.replica_count, row.planned_replicas), row.name


def test_two_gpus_half_empty_become_one_without_a_gap(liveness: redis.Redis) -> None:
    house = House(random.Random(1), liveness, nodes=1)
    own = next(one for one in house.classes if one.isolation == "mig")
    gpus = list(Gpu.objects.order_by("index"))[:2]
    rows = []
    for gpu in gpus:
        deployment = make_deployment(model=house.model, service_class=own)
        row = create_replica(deployment=deployment, reason="")
        place = Place(packing.Slot(gpu.board, packing.Isolation.MIG, "1g.10gb"), 0)
        reserve_seat(replica=row, gpu=gpu, memory_bytes=row.memory_bytes, place=place)
        rows.append(row)
    for _ in range(3):
        assert house.tick() == []
    house.half_an_hour_passes()
    assert house.tick() == []
    plan = planning.plan_now(house.now)
    assert plan is not None
    (change,) = plan.changes
    assert (plan.state, plan.kind, plan.moves) == ("running", "compact", 1)
    assert (plan.before["gpus_in_use"], plan.after["gpus_in_use"]) == (2, 1)
    ready = Replica.objects.for_platform().filter(state="ready", run=True, ended_at=None)
    for _ in range(8):
        house.tick()
        house.check()
        assert ready.values("deployment").distinct().count() == 2, "one had a gap"
    plan.refresh_from_db()
    assert (plan.state, plan.wave) == ("done", 1)
    assert set(Slice.objects.values_list("gpu_id", flat=True)) == {change["to"]["gpu"]}
    moved = Replica.objects.for_platform().get(replaces=change["replica"])
    assert moved.state == "ready"
    assert Replica.objects.for_platform().get(id=change["replica"]).ended_at is not None
    assert planning.plan_now(house.now) is not None
    assert not under_way(), "it would move them again"
