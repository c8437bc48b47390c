"""A replica that replaces another is extra until it is ready; devices that are emptied or fenced are left."""

from __future__ import annotations

from dataclasses import replace

from helpers.worlds import NOW, decisions, node, plan, replica, waiting
from scheduler.world import Action, CreateReplica, Device, DrainReplica, MarkLost, Node, PlaceReplica, Replica


def handover(**changes: object) -> list[Replica]:
    """``old`` serves on a, ``new`` is to replace it on b."""
    new = replica("new", node="b", device="gpu-b", state="loading", created_at=NOW - 50, replaces="old")
    return [replica("old"), replace(new, **changes)]  # type: ignore[arg-type]


def two() -> list[Node]:
    return [node("a", used=1), node("b", used=1)]


def test_until_it_is_ready_it_is_neither_missing_nor_too_many() -> None:
    assert plan(two(), handover()) == []
    assert plan(two(), handover(state="ready", missing_since=NOW - 1)) == []
    assert plan(two(), handover(state="failed", restarts=2)) == []


def test_once_it_is_ready_the_other_one_goes() -> None:
    why = "Replaced by new on cpu-0 of b: make-before-break"
    assert plan(two(), handover(state="ready")) == [DrainReplica("old", why)]
    (told,) = decisions(two(), handover(state="ready"))
    assert (told.kind, told.replica, told.inputs["replaced_by"]) == ("drain", "old", "new")
    gone = [replace(handover()[0], run=False, state="draining"), handover(state="ready")[1]]
    assert plan(two(), gone) == []


def test_when_the_other_one_ends_first_it_is_an_ordinary_one() -> None:
    (_, new) = handover()
    assert plan(two(), [new]) == []
    assert plan(two(), [new], 2)[0].node == "a"  # type: ignore[union-attr]
    lost = replace(handover()[0], missing_since=NOW - 20)
    assert plan(two(), [lost, new]) == [MarkLost("old", "The runtime on a sent no sign of life for 15 s")]


def test_when_it_fails_for_good_the_other_one_stays() -> None:
    (end,) = plan(two(), handover(state="failed", restarts=5, reason="exit code 1"))
    assert (end.replica, end.state) == ("new", "failed")  # type: ignore[union-attr]
    why = "It did not take over within 30 minutes"
    assert plan(two(), handover(created_at=NOW - 1801)) == [DrainReplica("new", why)]


def test_who_is_let_go_takes_its_successor_along() -> None:
    assert {one.replica for one in plan(two(), handover(), 0)} == {"old", "new"}  # type: ignore[union-attr]


def test_a_successor_of_one_that_leaves_stands_in_for_it() -> None:
    drained = [node("a", used=1, cordoned=True, draining=True), node("b", used=1)]
    assert plan(drained, handover()) == []
    leaving_itself = [node("a", used=1), node("b", used=1, cordoned=True, draining=True)]
    why = "cpu-0 of b is being emptied before it took over"
    assert plan(leaving_itself, handover()) == [DrainReplica("new", why)]


def device(**changes: object) -> list[Node]:
    """Node a with a device that is to be left, and b with room."""
    left = Device("gpu-a", "cpu-0", 24 * 10**9, 4, 1, unfit="XID 79: fell off the bus", leaving=True)
    return [replace(node("a"), devices=(replace(left, **changes),)), node("b")]  # type: ignore[arg-type]


def test_a_device_that_is_emptied_is_left_once_another_is_ready_elsewhere() -> None:
    made: list[Action] = plan(device(), [replica()])
    assert [type(one) for one in made] == [PlaceReplica]
    assert made[0].node == "b"  # type: ignore[union-attr]
    other = replica("r2", node="b", device="gpu-b")
    why = "cpu-0 of a is emptied, XID 79: fell off the bus: 1 of 1 replicas are ready elsewhere"
    assert plan(device(), [replica(), other]) == [DrainReplica("r1", why)]


def test_a_fenced_device_is_left_at_once() -> None:
    drain, placed = plan(device(fenced=True), [replica()])
    assert drain == DrainReplica("r1", "cpu-0 of a is fenced: XID 79: fell off the bus")
    assert placed.node == "b"  # type: ignore[union-attr]
    gone = replica(run=False, state="draining")
    there = replica("r2", node="b", device="gpu-b", state="loading")
    assert plan(device(fenced=True), [gone, there]) == []


def test_a_suspect_device_takes_nothing_and_keeps_what_it_has() -> None:
    suspect = device(leaving=False)
    assert plan(suspect, [replica()]) == []
    assert plan(suspect, [])[0].node == "b"  # type: ignore[union-attr]
    (told,) = decisions(suspect, [])
    judged = {found.node: found.why_not for found in told.candidates}
    assert judged == {"a": "XID 79: fell off the bus", "b": ""}


def test_a_successor_without_a_place_is_given_up() -> None:
    rows = [replica("old"), waiting("new", replaces="old")]
    (end,) = plan(two(), rows)
    assert (end.replica, end.reason) == ("new", "The place that it was made for is gone")  # type: ignore[union-attr]
    assert not isinstance(end, CreateReplica)
