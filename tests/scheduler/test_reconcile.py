"""The rules one by one: placing, scaling, giving up, losing and ending."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.worlds import GB, NOW, node, plan, replica, waiting
from scheduler.world import CreateReplica, DrainReplica, EndReplica, Explain, Failure, MarkLost, PlaceReplica


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


def test_replicas_of_a_vanished_deployment_are_drained() -> None:
    assert plan([node()], [replica(deployment="other")], 0) == [DrainReplica("r1", "Its deployment is gone")]
