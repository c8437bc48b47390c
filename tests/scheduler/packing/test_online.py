"""One replica at a time: the rules no seat may break, the preferences, and the reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.fleets import H100, demand, fleet, mig, mps, seat, whole
from scheduler.packing.books import Books, Illegal
from scheduler.packing.insertion import Insertion
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Spread
from scheduler.packing.online import Choice, Placer, Policy, Reserve
from scheduler.packing.outlook import would_fit
from scheduler.packing.preempt import preempt
from scheduler.packing.refusals import why_no_place

ONE = {mig("1g.10gb"): 1.0}


def place(where: Fleet, one: Demand, **options: object) -> Choice | None:
    return Placer(Books(where)).find(one, **options)  # type: ignore[arg-type]


def test_a_gpu_in_use_is_taken_before_an_empty_one_is_opened() -> None:
    found = place(fleet(2, seats=[seat("a/0", "g1", mig("1g.10gb"), 6)]), demand("b", ONE))
    assert found is not None
    assert (found.gpu, found.opens) == ("g1", False)


def test_the_home_of_the_largest_profile_is_kept() -> None:
    found = place(fleet(1), demand("b", ONE))
    assert found is not None
    assert found.start >= 4


@pytest.mark.parametrize(("spread", "expected"), [(Spread.GPU, "g1"), (Spread.NODE, "g2"), (Spread.DOMAIN, "g4")])
def test_replicas_keep_apart_as_far_as_asked(spread: Spread, expected: str) -> None:
    where = fleet(6, a_node=2, seats=[seat("a/0", "g0", mig("1g.10gb"), 6)])
    found = place(where, demand("a", ONE, spread=spread))
    assert found is not None
    # Siblings are kept further apart than they must be where that costs nothing: all the empty GPUs are alike.
    gpus = {gpu.id: n for n, gpu in enumerate(where.gpus)}
    assert gpus[found.gpu] >= gpus[expected]


def test_no_gpu_far_enough_is_said() -> None:
    where = fleet(2, seats=[seat("a/0", "g0", mig("1g.10gb"), 6)])
    one = demand("a", ONE, spread=Spread.NODE)
    assert place(where, one) is None
    assert "2 hold a replica of it on the same node" in why_no_place(Books(where), one)


def test_shares_are_never_given_to_strangers() -> None:
    taken = fleet(1, seats=[seat("a/0", "g0", mps(2), 0, trust="x")])
    stranger = demand("b", {mps(2): 1.0}, trust="y", isolation=Isolation.MPS)
    assert place(taken, stranger) is None
    assert "1 are shared within another trust domain" in why_no_place(Books(taken), stranger)
    friend = place(taken, replace(stranger, trust="x"))
    assert friend is not None
    assert friend.start == 4


def test_a_slot_below_the_isolation_is_never_taken_even_if_it_has_a_rate() -> None:
    one = demand("a", {mps(2): 5.0, mig("3g.40gb"): 1.0}, isolation=Isolation.MIG)
    found = place(fleet(1), one)
    assert found is not None
    assert found.slot == mig("3g.40gb")


def test_a_node_that_holds_the_weights_is_preferred() -> None:
    where = fleet(4, a_node=1)
    where = Fleet(where.gpus, (), frozenset({("n2", "model-a")}))
    found = place(where, demand("a", ONE))
    assert found is not None
    assert found.gpu == "g2"


def test_a_suspect_gpu_takes_nothing() -> None:
    where = fleet(1, takes_new=False)
    one = demand("a", ONE)
    assert place(where, one) is None
    assert why_no_place(Books(where), one).endswith("1 take nothing new")


def test_the_reserve_is_kept_from_burst_and_small_slots_but_not_from_a_guarantee() -> None:
    policy = Policy(reserves=(Reserve(H100, 1),))
    placer = Placer(Books(fleet(1)), policy)
    assert placer.find(demand("a", ONE), burst=True) is None
    assert placer.find(demand("a", {mig("4g.40gb"): 1.0}), burst=True) is not None
    assert placer.find(demand("a", ONE)) is not None


def test_what_cannot_be_is_refused_by_the_books() -> None:
    books = Books(fleet(1, seats=[seat("a/0", "g0", mig("3g.40gb"), 4)]))
    with pytest.raises(Illegal, match="not free"):
        books.put(seat("b/0", "g0", mig("1g.10gb"), 5))
    with pytest.raises(Illegal, match="is mig, not whole"):
        books.put(seat("b/0", "g0", whole()))
    with pytest.raises(Illegal, match="sits already"):
        books.put(seat("a/0", "g0", mig("1g.10gb"), 0))
    with pytest.raises(Illegal, match="same gpu"):
        books.put(seat("a/1", "g0", mig("1g.10gb"), 0), Spread.GPU)
    with pytest.raises(Illegal, match="there is no GPU g7"):
        books.put(seat("b/0", "g7", mig("1g.10gb"), 0))
    with pytest.raises(LookupError, match="it may start at"):
        books.put(seat("b/0", "g0", mig("3g.40gb"), 2))


def test_the_reason_names_the_figures() -> None:
    full = fleet(2, seats=[seat("a/0", "g0", mig("4g.40gb"), 0), seat("b/0", "g1", whole())])
    full = Fleet((*full.gpus, Gpu("h", H100, "n", "r", frozenset({Isolation.WHOLE}))), full.seats)
    reason = why_no_place(Books(full), demand("c", {mig("4g.40gb"): 1.0}))
    assert reason.startswith("None of 3 GPUs has a place for 4g.40gb (42.4 GB) or more")
    assert "1 have units free, but not where it may start" in reason
    assert "1 are whole" in reason
    assert "1 cannot be cut or shared that way" in reason
    assert "the fleet has h100" in why_no_place(Books(full), demand("c", {mig("4g.24gb", "a30-24gb"): 1.0}))


# --- burst gives way --------------------------------------------------------------------------------------------


def busy() -> tuple[Fleet, dict[str, Demand]]:
    """Two full GPUs: one with burst on its upper half, one with a burst replica that gives more."""
    seats = [
        seat("a/0", "g0", mig("4g.40gb"), 0),
        seat("b/0", "g0", mig("3g.40gb"), 4, burst=True),
        seat("c/0", "g1", mig("4g.40gb"), 0),
        seat("d/0", "g1", mig("3g.40gb"), 4, burst=True),
    ]
    rates = {mig("4g.40gb"): 4.0, mig("3g.40gb"): 3.0}
    demands = {name: demand(name, rates, 3.0) for name in "abc"}
    demands["d"] = demand("d", {mig("3g.40gb"): 2.0}, guaranteed=0.0, burst=2.0)
    demands["b"] = demand("b", {mig("3g.40gb"): 3.0}, guaranteed=0.0, burst=3.0)
    return fleet(2, seats=seats), demands


def test_the_least_burst_gives_way_to_a_guarantee() -> None:
    where, demands = busy()
    found = preempt(Books(where), demand("new", {mig("2g.20gb"): 1.0}), demands)
    assert found is not None
    assert [victim.replica for victim in found.victims] == ["d/0"]
    assert (found.choice.gpu, found.choice.start, found.lost) == ("g1", 4, 2.0)


def test_a_guaranteed_replica_never_gives_way() -> None:
    where, demands = busy()
    assert preempt(Books(where), demand("new", {mig("7g.80gb"): 1.0}), demands) is None


def test_a_missing_guarantee_is_served_by_preemption_and_burst_never_preempts() -> None:
    where, demands = busy()
    asks = demand("new", {mig("3g.40gb"): 1.0}, guaranteed=1.0, burst=1.0)
    done = Insertion(Placer(Books(where)), {**demands, "new": asks}, now=0.0).run()
    gone = [change.before.replica for change in done.changes if change.after is None and change.before]
    assert gone == ["d/0"]
    assert len(done.books.of("new")) == 1
    assert {pending.demand for pending in done.pending} == {"new", "d"}


# --- would it fit ---------------------------------------------------------------------------------------------------


def test_before_a_deployment_is_made_one_may_ask() -> None:
    where, demands = busy()
    no = would_fit(where, demand("new", {mig("7g.80gb"): 1.0}), demands.values())
    assert not no.fits
    assert "None of 2 GPUs" in no.reason
    yes = would_fit(where, demand("new", {mig("3g.40gb"): 1.5}, 1.0), demands.values())
    assert (yes.fits, yes.goodput, yes.opens) == (True, 1.5, 0)
    assert [one.replica for one in yes.displaced] == ["d/0"]
    assert len(where.seats) == 4
