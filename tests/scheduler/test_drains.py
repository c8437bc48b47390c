"""A node that is drained is left one replica at a time, as others stand in for them."""

from __future__ import annotations

from dataclasses import replace

from helpers.worlds import GB, NOW, node, plan, replica, waiting
from scheduler.world import CreateReplica, DrainReplica, EndReplica, PlaceReplica


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
