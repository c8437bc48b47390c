"""What each look at the world writes down of its choices."""

from __future__ import annotations

from helpers.worlds import GB, NOW, decisions, node, replica, waiting
from scheduler.world import Failure


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
