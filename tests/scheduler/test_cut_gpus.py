"""Places on GPUs that are cut: which GPU and slot, what a person is told, and who gives way to whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.cut_worlds import gpu, gpu_node, sitting
from helpers.fleets import demand, mig, mps, whole
from helpers.worlds import GB, NOW, node, waiting
from scheduler.decisions import Decision
from scheduler.packing.model import Demand, Isolation, Spread
from scheduler.reconcile import reconcile
from scheduler.world import (
    Action,
    CreateReplica,
    Deployment,
    DesiredWorld,
    DrainReplica,
    Failure,
    Node,
    ObservedWorld,
    Place,
    PlaceReplica,
    Plan,
    Replica,
)

ONE = {mig("1g.10gb"): 100.0}
HALF = {mig("3g.40gb"): 400.0, whole(): 900.0}


def asked(rates: dict[Any, float], wanted: float = 100.0, name: str = "d", **changes: Any) -> Demand:
    return demand(name, rates, wanted, **{"trust": "t"} | changes)


def deployed(needs: Demand | None, count: int = 1, **changes: Any) -> Deployment:
    name = needs.id if needs is not None else "d"
    values: dict[str, Any] = {"id": name, "name": f"dep-{name}", "count": count, "memory_bytes": 3 * GB}
    return Deployment(**values | changes, demand=needs)


def look(nodes: list[Node], rows: list[Replica], *wanted: Deployment, **more: Any) -> Plan:
    rows = [replace(row, trust=row.trust or "t") for row in rows]
    world = ObservedWorld(tuple(nodes), tuple(rows), 0, more.pop("failures", ()))
    return reconcile(world, DesiredWorld(tuple(wanted), **more), NOW)


def placed(found: Plan) -> list[tuple[str, str, int]]:
    return [
        (one.device, one.place.slot.profile, one.place.start)
        for one in found.actions
        if isinstance(one, PlaceReplica) and one.place is not None
    ]


def told(found: Plan, kind: str) -> Decision:
    return next(one.decision for one in found.decisions if one.decision.kind == kind)


def test_a_slice_gets_its_place_and_the_record_says_where_and_why() -> None:
    found = look([gpu_node("n", 2)], [], deployed(asked(ONE)))
    (action,) = found.actions
    assert action == PlaceReplica(
        "d", None, "n", "n-0", 3 * GB, "Placed on gpu-0 of n, mig 1g.10gb at 6", Place(mig("1g.10gb"), 6)
    )
    made = told(found, "place")
    assert "the best of 2 devices with room" in made.why
    assert made.why.endswith("mig 1g.10gb at 6 costs the fleet least")
    first = made.candidates[0]
    assert (first.device_id, first.slot, first.start, first.units_free, first.units_needed) == (
        "n-0", "mig 1g.10gb", 6, 8, 1,
    )  # fmt: skip
    assert first.score is not None
    assert 3 < first.score < 4


def test_a_gpu_that_is_cut_comes_before_a_device_that_is_not() -> None:
    nodes = [node("a"), gpu_node("n")]
    low = asked(ONE, isolation=Isolation.TIME_SLICE)
    assert placed(look(nodes, [], deployed(low))) == [("n-0", "1g.10gb", 6)]
    failed = (Failure("d", "n", NOW - 1000),)
    (elsewhere,) = look(nodes, [], deployed(low), failures=failed).actions
    assert elsewhere.node == "a"  # type: ignore[union-attr]
    (plain,) = look(nodes, [], deployed(None)).actions
    assert (plain.node, plain.place) == ("a", None)  # type: ignore[union-attr]


def test_a_device_that_is_not_cut_does_not_isolate() -> None:
    found = look([node("a")], [], deployed(asked(ONE)))
    (action,) = found.actions
    assert action == CreateReplica("d", "1 devices cannot be cut, and it needs mig isolation")
    why = told(found, "refuse").candidates[0].why_not
    assert why == "its processes share memory and faults; it needs mig isolation"


def test_the_slot_follows_from_what_is_to_be_served() -> None:
    rates = {mig("1g.10gb"): 100.0, mig("2g.20gb"): 210.0, mig("3g.40gb"): 430.0, whole(): 1000.0}
    small, large = asked(rates, 90.0), asked(rates, 400.0)
    assert placed(look([gpu_node("n")], [], deployed(small)))[0][1] == "1g.10gb"
    assert placed(look([gpu_node("n")], [], deployed(large)))[0][1] == "3g.40gb"
    # Two replicas share the load evenly.
    each = placed(look([gpu_node("n", 2)], [], deployed(large, 2)))
    assert [profile for _, profile, _ in each] == ["2g.20gb", "2g.20gb"]


def test_without_room_the_reason_counts_gpus_and_the_candidates_say_each() -> None:
    full = [sitting("r0", "n-0", whole(), deployment="x"), sitting("r1", "n-1", mig("4g.40gb"), 0, deployment="y")]
    needs = {name: asked({whole(): 9.0, mig("4g.40gb"): 9.0}, name=name) for name in "xy"}
    found = look([gpu_node("n", 2)], full, *(deployed(one) for one in needs.values()), deployed(asked({whole(): 9.0})))
    (action,) = found.actions
    assert action == CreateReplica("d", "None of 2 GPUs has a place for whole (85.1 GB) or more: 1 are full, 1 are mig")
    judged = {one.device_id: one.why_not for one in told(found, "refuse").candidates}
    assert judged == {"n-0": "is full; whole needs 8 of 8 units, 0 are free", "n-1": "is mig"}


def test_an_unfit_gpu_a_cordoned_node_and_a_replica_without_a_place_close_it() -> None:
    odd = sitting("r1", "o-0", mig("1g.10gb"), deployment="x")
    nodes = [
        replace(gpu_node("u"), devices=(gpu("u-0", unfit="it is suspect: XID 63"),)),
        gpu_node("c", cordoned=True),
        gpu_node("o"),
    ]
    found = look(nodes, [replace(odd, place=None)], deployed(asked(ONE)), deployed(None, id="x"))
    judged = {one.device_id: one.why_not for one in told(found, "refuse").candidates}
    assert judged == {
        "u-0": "it is suspect: XID 63",
        "c-0": "the node is cordoned",
        "o-0": "r1 sits there from before it was cut",
    }


def test_what_another_tool_made_takes_its_units_or_closes_the_gpu() -> None:
    blocked = replace(gpu_node("n"), devices=(gpu("n-0", blocked=(("4g.40gb", 0),)),))
    assert placed(look([blocked], [], deployed(asked(HALF)))) == [("n-0", "3g.40gb", 4)]
    (refused,) = look([blocked], [], deployed(asked({whole(): 9.0}))).actions
    assert "1 hold instances that cannot be removed" in refused.reason
    media = replace(gpu_node("n"), devices=(gpu("n-0", blocked=(("1g.10gb+me", 0),)),))
    found = look([media], [], deployed(asked(ONE)))
    assert told(found, "refuse").candidates[0].why_not == "it holds instances that nobody here made: 1g.10gb+me at 0"


def test_shares_stay_within_their_owner() -> None:
    rates = {mps(2): 50.0}
    mine = asked(rates, 50.0, isolation=Isolation.MPS)
    theirs = asked(rates, 50.0, "e", trust="other", isolation=Isolation.MPS)
    sits = sitting("r0", "n-0", mps(2), 0, deployment="e", trust="other")
    found = look([gpu_node("n")], [sits], deployed(theirs), deployed(mine))
    assert placed(found) == []
    assert "1 are shared within another trust domain" in told(found, "refuse").why
    kin = replace(theirs, trust="t")
    assert placed(look([gpu_node("n")], [replace(sits, trust="t")], deployed(kin), deployed(mine))) == [
        ("n-0", "1/2", 4)
    ]
    # Of whom nothing is known, nobody shares with.
    assert placed(look([gpu_node("n")], [replace(sits, trust="of e")], deployed(kin), deployed(mine))) == []


def test_who_is_promised_more_isolation_than_it_has_moves_there() -> None:
    rates = {mps(2): 50.0, mig("1g.10gb"): 60.0}
    sits = sitting("r0", "n-0", mps(2), 0)
    nodes = [gpu_node("n", 2)]
    assert look(nodes, [sits], deployed(asked(rates, 50.0, isolation=Isolation.MPS))).actions == []
    more = deployed(asked(rates, 50.0, isolation=Isolation.MIG))
    found = look(nodes, [sits], more)
    assert placed(found) == [("n-1", "1g.10gb", 6)]
    assert len(found.actions) == 1
    both = [sits, sitting("r1", "n-1", mig("1g.10gb"), 6)]
    why = "gpu-0 of n gives less than the mig isolation that is promised: 1 of 1 replicas are ready elsewhere"
    assert look(nodes, both, more).actions == [DrainReplica("r0", why)]


# --- burst gives way ------------------------------------------------------------------------------------------------


def crowded() -> tuple[list[Node], list[Replica], Deployment]:
    """One GPU: b has what it is guaranteed on its upper half and a replica beyond that on a part of the lower."""
    rates = {mig("3g.40gb"): 400.0, mig("2g.20gb"): 200.0}
    greedy = asked(rates, 400.0, "b", burst=400.0, spread=Spread.NONE)
    rows = [
        sitting("kept", "n-0", mig("3g.40gb"), 4, deployment="b", created_at=NOW - 500),
        sitting("beyond", "n-0", mig("2g.20gb"), 0, deployment="b", created_at=NOW - 100, burst=True),
    ]
    return [gpu_node("n")], rows, deployed(greedy, 2)


def again(nodes: list[Node], rows: list[Replica], actions: list[Action], *wanted: Deployment) -> list[Action]:
    """What is asked for after ``actions`` were carried out and nothing else happened."""
    drained = {one.replica for one in actions if isinstance(one, DrainReplica)}
    after = [replace(row, run=False, state="draining") if row.id in drained else row for row in rows]
    for number, one in enumerate(one for one in actions if isinstance(one, CreateReplica)):
        made = waiting(f"w{number}", deployment=one.deployment, reason=one.reason, created_at=NOW + number)
        after.append(made)
    return look(nodes, after, *wanted).actions


def test_burst_gives_way_to_a_guarantee_that_finds_no_room() -> None:
    nodes, rows, greedy = crowded()
    newcomer = deployed(asked({mig("4g.40gb"): 400.0}, 400.0))
    found = look(nodes, rows, greedy, newcomer)
    why = "Beyond what is guaranteed: it gives way to dep-d, which is guaranteed a replica"
    assert DrainReplica("beyond", why) in found.actions
    waits = [one for one in found.actions if isinstance(one, CreateReplica) and one.deployment == "d"]
    assert [one.reason for one in waits] == ["It gets mig 4g.40gb of n gpu-0 once free of beyond"]
    assert again(nodes, rows, found.actions, greedy, newcomer) == []
    gone = [row for row in rows if row.id != "beyond"]
    assert placed(look(nodes, gone, greedy, newcomer))[0] == ("n-0", "4g.40gb", 0)


def test_guaranteed_replicas_and_their_own_burst_never_give_way() -> None:
    nodes, rows, greedy = crowded()
    whole_one = deployed(asked({whole(): 900.0}, 900.0))
    found = look(nodes, rows, greedy, whole_one)
    assert not [one for one in found.actions if isinstance(one, DrainReplica)]
    burst = deployed(asked({mig("4g.40gb"): 400.0}, 0.0, burst=400.0, min_replicas=0))
    found = look(nodes, rows, greedy, burst)
    assert not [one for one in found.actions if isinstance(one, DrainReplica)]


def test_whoever_is_leaving_anyway_is_waited_for_before_anyone_is_asked_to() -> None:
    nodes, rows, greedy = crowded()
    rows.append(sitting("going", "m-0", whole(), deployment="gone", run=False, state="draining"))
    newcomer = deployed(asked({mig("4g.40gb"): 400.0}, 400.0))
    found = look([*nodes, gpu_node("m")], rows, greedy, newcomer)
    assert [type(one) for one in found.actions] == [CreateReplica]
    assert "m gpu-0 once free of going" in found.actions[0].reason
    assert again([*nodes, gpu_node("m")], rows, found.actions, greedy, newcomer) == []


def test_what_is_promised_is_not_given_to_burst_meanwhile() -> None:
    nodes, rows, greedy = crowded()
    newcomer = deployed(asked({mig("4g.40gb"): 400.0}, 400.0))
    small = deployed(asked(ONE, 0.0, "s", burst=50.0, min_replicas=0))
    found = look(nodes, rows, greedy, newcomer, small)
    assert placed(found) == []
    assert placed(look(nodes, rows, greedy, small)) != []


def test_gpus_that_a_plan_moves_onto_are_left_to_it_while_there_are_others() -> None:
    one = deployed(asked(ONE))
    assert placed(look([gpu_node("n", 2)], [], one, held=frozenset({"n-0"})))[0][0] == "n-1"
    assert placed(look([gpu_node("n", 1)], [], one, held=frozenset({"n-0"})))[0][0] == "n-0"
    beyond = deployed(asked(ONE, 0.0, burst=50.0, min_replicas=0))
    assert placed(look([gpu_node("n", 1)], [], beyond, held=frozenset({"n-0"}))) == []


def test_whom_a_plan_lets_go_goes_first() -> None:
    rows = [sitting(f"r{at}", "n-0", mig("1g.10gb"), at, created_at=NOW - at) for at in range(3)]
    found = look([gpu_node("n")], rows, deployed(asked(ONE, spread=Spread.NONE), 2), unwanted=frozenset({"r2"}))
    assert [one.replica for one in found.actions if isinstance(one, DrainReplica)] == ["r2"]
