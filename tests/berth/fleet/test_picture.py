"""The picture of the fleet: who is drawn where, with what reason, for whom, and how long it takes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from berth.decisions.models import Decision
from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.fleet.models import Gpu, Node, Seat, Slice
from berth.fleet.picture import picture
from berth.fleet.seats import reserve_seat
from berth.fleet.services import cordon_node
from berth.options.models import OptionValue
from gpuruntime import protocol
from helpers.api_cases import World, problem, url
from helpers.factories import GIB, cut_device, device, make_deployment, make_node, unique
from scheduler.geometry.boards import board
from scheduler.packing.model import Isolation, Slot
from scheduler.world import Place

pytestmark = pytest.mark.django_db
H100 = board("h100-sxm-80gb")


def h100(index: int = 0) -> protocol.Device:
    return cut_device(H100.key, index, memory_bytes=80 * GIB)


def seat(gpu: Gpu, profile: str, start: int, tenant: Any = None, *, burst: bool = False) -> Replica:
    replica = create_replica(deployment=make_deployment(tenant=tenant), reason="")
    place = Place(Slot(H100.key, Isolation.MIG, profile), start, burst)
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=GIB, place=place)
    return replica


def shown(answer: dict[str, Any], gpu: Gpu) -> dict[str, Any]:
    return next(one for one in answer["gpus"] if one["id"] == gpu.id)


def test_who_sits_where_and_why() -> None:
    world = World()
    gpu = make_node(None, h100()).gpus.get()
    replica = seat(gpu, "2g.20gb", 4, world.tenant, burst=True)
    now = timezone.now()
    given = {"tenant_id": world.tenant.id, "replica_id": replica.id, "at": now, "last_at": now}
    Decision.objects.create(kind="place", why="an old reason", **given)
    decision = Decision.objects.create(kind="place", why="it fits best there", **given)
    Decision.objects.create(kind="drain", why="of another kind", **given)

    answer = world.client("operator").get(url("fleet", "map")).json()
    drawn = shown(answer, gpu)
    assert (drawn["label"], drawn["board"], drawn["cut"], drawn["units"]) == ("gpu-0", H100.key, "mig", 8)
    assert [(one["kind"], one["start"], one["size"]) for one in drawn["segments"]] == [
        ("free", 0, 4),
        ("slice", 4, 2),
        ("free", 6, 2),
    ]
    (sitting,) = drawn["segments"][1]["seats"]
    assert sitting["replica"] == replica.id
    assert (sitting["deployment_name"], sitting["service_class"]) == (replica.deployment.name, "chat")
    assert (sitting["tenant"], sitting["tenant_name"]) == (world.tenant.id, world.tenant.name)
    assert (sitting["why"], sitting["decision"], sitting["burst"]) == ("it fits best there", decision.id, True)
    assert (drawn["units_taken"], drawn["units_free"], drawn["units_stranded"]) == (2, 6, 0)
    assert (answer["totals"]["devices_in_use"], answer["totals"]["replicas"]) == (1, 1)


def test_what_is_blocked_or_stranded_is_told_apart() -> None:
    gpu = make_node(None, h100()).gpus.get()
    for start in range(6):
        seat(gpu, "1g.10gb", start)
    stray = {"kind": "mig", "profile": "1g.10gb", "start": 6, "size": 1, "state": "foreign", "reason": "not ours"}
    Gpu.objects.filter(id=gpu.id).update(blocked=[stray])
    drawn = shown(picture(), gpu)
    assert [one["kind"] for one in drawn["segments"]] == ["slice"] * 6 + ["blocked", "stranded"]
    assert (drawn["segments"][6]["state"], drawn["segments"][6]["reason"]) == ("foreign", "not ours")
    assert (drawn["units_blocked"], drawn["units_stranded"], drawn["units_free"]) == (1, 1, 0)


def test_a_cpu_is_measured_against_its_machine() -> None:
    node = make_node(None, device(memory_bytes=6 * GIB))
    Node.objects.filter(id=node.id).update(memory_bytes=64 * GIB)
    gpu = node.gpus.get()
    replica = create_replica(deployment=make_deployment(), reason="")
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=2 * GIB)
    drawn = shown(picture(node.id), gpu)
    assert (drawn["cut"], drawn["label"], drawn["fragmentation"]) == ("shares", "cpu-0", None)
    assert (drawn["memory_bytes"], drawn["memory_measured_bytes"]) == (6 * GIB, 64 * GIB)
    assert [(one["kind"], one["size"]) for one in drawn["segments"]] == [("slice", 2), ("free", 2)]


def test_one_node_alone_and_what_takes_nothing_new() -> None:
    node, other = make_node(None, h100()), make_node(None, h100())
    cordon_node(node=other, cordoned=True, actor="test")
    Gpu.objects.filter(node=node).update(health="suspect", health_reason="XID 63")
    answer = picture()
    totals = answer["totals"]
    assert (totals["nodes"], totals["devices"], totals["devices_taking_new"]) == (2, 2, 0)
    assert [one["node"]["id"] for one in picture(node.id)["gpus"]] == [node.id]
    assert shown(answer, node.gpus.get())["health_reason"] == "XID 63"


def test_it_is_the_operators() -> None:
    world = World()
    problem(world.client("owner").get(url("fleet", "map")), 403)
    problem(world.client("nobody").get(url("fleet", "map")), 401)


def test_a_thousand_gpus_take_a_handful_of_queries() -> None:
    world = World()
    deployment = make_deployment(tenant=world.tenant)
    nodes = [Node(name=unique("node"), provider="simulated") for _ in range(125)]
    Node.objects.bulk_create(nodes)
    gpus = [
        Gpu(node=node, index=n, uuid=f"u{n}", name=H100.name, kind="gpu", board=H100.key, units=H100.units,
            memory_bytes=80 * GIB)
        for node in nodes for n in range(8)
    ]  # fmt: skip
    Gpu.objects.bulk_create(gpus)
    places = [("3g.40gb", 0, 4), ("2g.20gb", 4, 2), ("1g.10gb", 6, 1)]
    slices = [
        Slice(gpu=gpu, kind="mig", profile=profile, start=start, size=size, memory_bytes=GIB)
        for gpu in gpus for profile, start, size in places
    ]  # fmt: skip
    Slice.objects.bulk_create(slices)
    replicas = [Replica(tenant=world.tenant, deployment=deployment) for _ in slices]
    Replica.objects.bulk_create(replicas)
    Seat.objects.bulk_create(
        Seat(slice=part, replica=replica, memory_bytes=GIB) for part, replica in zip(slices, replicas, strict=True)
    )
    now = timezone.now()
    Decision.objects.bulk_create(
        Decision(kind="place", replica_id=one.id, deployment_id=deployment.id, why="why", at=now, last_at=now)
        for one in replicas
    )
    client = world.client("operator")
    client.get(url("fleet", "map"))
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(url("fleet", "map"))
    # Options are read anew every 5 s, in whichever request it falls.
    assert len([query for query in queries if OptionValue._meta.db_table not in query["sql"]]) <= 8
    assert answer.json()["totals"]["replicas"] == 3000


def test_nodes_are_listed_without_their_devices_where_those_are_not_asked_for() -> None:
    gpu = make_node(None, h100()).gpus.get()
    seat(gpu, "1g.10gb", 0)
    client = World().client("operator")
    whole = client.get(url("nodes")).json()["results"]
    without = client.get(url("nodes"), {"devices": "false"}).json()["results"]
    assert [one["id"] for one in whole[0]["devices"]] == [gpu.id]
    assert without == [one | {"devices": []} for one in whole]
