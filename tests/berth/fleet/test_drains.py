"""Cordon, drain, uncordon, delete: what a person asks of a node, and what it says of how far that is."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from berth.audit.models import AuditEvent
from berth.core.errors import Conflict, NoRoom
from berth.deployments.models import Replica
from berth.deployments.services import create_replica, drain_replica, end_replica
from berth.fleet.drains import annotate_drains
from berth.fleet.models import Gpu, Node
from berth.fleet.services import cordon_node, create_node, delete_node, desired_for, drain_node, reserve_seat
from berth.live import names
from berth.options.services import set_option
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_node

pytestmark = pytest.mark.django_db


def seated(node: Node, deployment: Any = None, **values: Any) -> Replica:
    replica = create_replica(deployment=deployment or make_deployment(), reason="wanted")
    if node is not None:
        reserve_seat(replica=replica, gpu=node.gpus.get(), memory_bytes=1)
    Replica.objects.for_platform().filter(id=replica.id).update(**{"state": "ready", **values})
    row: Replica = Replica.objects.for_platform().get(id=replica.id)
    return row


def shown(node: Node) -> Any:
    row = Node.objects.get(id=node.id)
    annotate_drains([row])
    return row.drain  # type: ignore[attr-defined]


def test_a_drain_tells_how_far_it_is() -> None:
    node, other = make_node(), make_node("other")
    first, second = seated(node), seated(node)
    assert shown(node) is None
    drain_node(node=node, actor="ann@example.com")
    assert drain_node(node=node, actor="bob@example.com").drain_requested_by == "ann@example.com"
    seen = shown(node)
    assert (seen.state, seen.total, seen.left, seen.requested_by) == ("replacing", 2, 2, "ann@example.com")
    assert {move.state for move in seen.moves} == {"serving"}

    waits = create_replica(deployment=first.deployment, reason="No device has 9.0 GB free")
    seen = shown(node)
    assert (seen.state, seen.reason) == (
        "blocked", "1 of 2 have no room elsewhere and go on serving. No device has 9.0 GB free",
    )  # fmt: skip
    assert [(move.replica, move.state, move.successor) for move in seen.moves] == [
        (first.id, "waiting", waits.id), (second.id, "serving", None),
    ]  # fmt: skip

    reserve_seat(replica=waits, gpu=other.gpus.get(), memory_bytes=1)
    move = shown(node).moves[0]
    assert (move.state, move.successor, move.successor_node) == ("serving", waits.id, "other")
    for row in (first, second):
        drain_replica(replica=row, reason="Node is drained")
    with redis.Redis.from_url(settings.REDIS_URL) as store:
        store.set(names.stats(second.id), b'{"running": 3, "queued": 1}', ex=names.ALIVE_TTL_S)
    seen = shown(node)
    assert (seen.state, seen.left, {move.state for move in seen.moves}) == ("ending", 2, {"ending"})
    assert [move.running for move in seen.moves] == [None, 4], "only what a replica said is shown"
    for row in (first, second):
        end_replica(replica=row, state="stopped", reason="Done")
    seen = shown(node)
    assert (seen.state, seen.total, seen.left, seen.moves) == ("done", 2, 0, ())


def test_draining_cordons_and_uncordoning_ends_the_drain() -> None:
    node = make_node()
    drain_node(node=node, actor="ann@example.com")
    with pytest.raises(NoRoom, match="cordoned"):
        seated(node)
    row = cordon_node(node=node, cordoned=False, actor="bob@example.com")
    assert (row.cordoned, row.drain_requested_at, row.drain_requested_by, row.drain_total) == (False, None, "", 0)
    events = AuditEvent.objects.for_platform().filter(object_id=node.id).order_by("id")
    assert [(event.action, event.actor) for event in events][-2:] == [
        ("node.drain", "ann@example.com"), ("node.uncordon", "bob@example.com"),
    ]  # fmt: skip
    assert events.last().before == {"cordoned": True, "draining": True}
    count = events.count()
    cordon_node(node=node, cordoned=False, actor="bob@example.com")
    assert events.count() == count


def test_only_an_empty_node_that_takes_nothing_is_deleted() -> None:
    node = make_node()
    replica = seated(node)
    with pytest.raises(Conflict, match="drain it first"):
        delete_node(node=node, actor="test")
    end_replica(replica=replica, state="stopped", reason="Done")
    with pytest.raises(Conflict, match="takes replicas: cordon or drain it first"):
        delete_node(node=node, actor="test")
    cordon_node(node=node, cordoned=True, actor="test")
    delete_node(node=node, actor="test")
    assert not Node.objects.exists()
    assert not Gpu.objects.exists()
    assert Replica.objects.for_platform().get(id=replica.id).node_id is None
    delete_node(node=create_node(name="never-joined", actor="test")[0], actor="test")


def test_the_routes(django_assert_max_num_queries: Any) -> None:
    world = World()
    node, other = make_node(), make_node()
    seated(node)
    operator, owner = world.client("operator"), world.client("owner")
    for verb in ("drain", "cordon", "uncordon"):
        problem(owner.post(url("nodes", node.id, verb)), 403)
    answer = operator.post(url("nodes", node.id, "drain")).json()
    assert (answer["cordoned"], answer["drain"]["state"], answer["drain"]["left"]) == (True, "replacing", 1)
    assert answer["drain"]["moves"][0]["deployment_name"]
    with django_assert_max_num_queries(12):
        rows = operator.get(url("nodes") + "?draining=true").json()["results"]
    assert [(row["id"], row["drain"]["state"]) for row in rows] == [(node.id, "replacing")]
    problem(operator.delete(url("nodes", node.id)), 409)
    assert operator.post(url("nodes", node.id, "uncordon")).json()["drain"] is None
    assert operator.post(url("nodes", other.id, "cordon")).json()["cordoned"] is True
    assert operator.delete(url("nodes", other.id)).status_code == 204
    problem(operator.post(url("nodes", other.id, "drain")), 404)


def test_devices_and_slices_say_who_sits_where() -> None:
    world = World()
    node = make_node()
    replica = seated(node)
    gpu = world.client("operator").get(url("gpus") + f"?node={node.id}").json()["results"][0]
    assert (gpu["node"]["name"], gpu["promised_bytes"], gpu["units_free"]) == (node.name, 1, 3)
    assert [seat["replica"] for seat in gpu["seats"]] == [replica.id]
    slice_ = world.client("operator").get(url("slices") + f"?gpu={gpu['id']}").json()["results"][0]
    assert (slice_["units"], slice_["promised_bytes"], slice_["node"]["id"]) == ([0], 1, node.id)
    assert slice_["seats"][0]["deployment_name"] == replica.deployment.name
    assert slice_["created_at"] <= timezone.now().isoformat()


def test_how_long_a_drain_may_last_is_the_operators_to_say() -> None:
    node = make_node()
    seated(node)
    assert [spec.drain_timeout_s for spec in desired_for(node).replicas] == [600.0]
    set_option(key="drain_timeout_s", value=3600, actor="test")
    assert [spec.drain_timeout_s for spec in desired_for(node).replicas] == [3600.0]
