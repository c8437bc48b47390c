"""States and patterns against published counts, and against an enumeration that walks units instead of placements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.geometry.boards import Cut, board, boards
from scheduler.geometry.layouts import Layouts, layouts

H100 = board("h100-sxm-80gb").mig
CLASSIC = tuple(p.name for p in H100.profiles if p.variant == "base")
RTX = board("rtx-pro-6000-96gb").mig
Instances = frozenset[tuple[str, int]]


def walked(cut: Cut, names: tuple[str, ...]) -> Iterator[Instances]:
    """Every way to fill the units from the left: a unit stays free, or an instance begins there."""

    def fill(unit: int) -> Iterator[Instances]:
        if unit >= cut.units:
            yield frozenset()
            return
        yield from fill(unit + 1)
        for name in names:
            profile = cut.profile(name)
            if unit in profile.starts:
                for rest in fill(unit + profile.size):
                    yield rest | {(name, unit)}

    def allowed(instances: Instances) -> bool:
        count = Counter(name for name, _ in instances)
        engines = sum(cut.profile(name).ofas for name, _ in instances)
        return engines <= cut.ofas and all(count[name] <= cut.profile(name).max_instances for name in count)

    return filter(allowed, fill(0))


def instances(found: Layouts, state: int) -> Instances:
    return frozenset((found.names[p.profile], p.start) for p in found.members(state))


@pytest.mark.parametrize(
    ("cut", "names", "placements", "states", "maximal", "vectors", "patterns"),
    [
        (H100, H100.serving(), 18, 723, 78, 78, 28),
        (H100, CLASSIC, 14, 298, 19, 38, 12),
        (H100, (*H100.serving(), "1g.10gb+me"), 25, 2319, 239, 128, 44),
        (board("a30-24gb").mig, board("a30-24gb").mig.serving(), 7, 26, 5, 10, 4),
        (RTX, RTX.serving(), 7, 26, 5, 10, 4),
    ],
)
def test_the_published_numbers_of_states(
    cut: Cut, names: tuple[str, ...], placements: int, states: int, maximal: int, vectors: int, patterns: int
) -> None:
    found = Layouts(cut, names)
    counts = (found.placements, found.states, found.maximal_states, found.vectors, found.patterns)
    assert tuple(map(len, counts)) == (placements, states, maximal, vectors, patterns)


@pytest.mark.parametrize("key", boards())
def test_states_are_those_of_a_walk_along_the_units(key: str) -> None:
    cut = board(key).mig
    names = (*cut.serving(), *(p.name for p in cut.profiles if p.variant == "media"))
    found = Layouts(cut, names)
    expected = set(walked(cut, names))
    assert {instances(found, state) for state in found.states} == expected
    assert len(found.states) == len(expected)


@pytest.mark.parametrize("key", boards())
def test_patterns_are_the_counts_that_no_other_contains(key: str) -> None:
    cut = board(key).mig
    found = layouts(key, "mig")
    counted = {tuple(sorted(Counter(name for name, _ in one).items())) for one in walked(cut, cut.serving())}
    tops = [one for one in counted if not any(Counter(dict(one)) < Counter(dict(other)) for other in counted)]
    expected = {tuple(dict(one).get(name, 0) for name in found.names) for one in tops}
    assert set(found.patterns) == expected
    for pattern, states in found.layouts_of.items():
        assert {found.counts(state) for state in states} == {pattern}


def test_an_instance_with_every_media_engine_tolerates_only_those_without() -> None:
    found = Layouts(RTX, ("1g.24gb", "1g.24gb-me", "1g.24gb+me.all"))
    state = found.state_of([("1g.24gb+me.all", 0), ("1g.24gb-me", 3)])
    names = {found.names[p.profile] for p in found.additions(state)}
    assert names == {"1g.24gb-me"}
    with pytest.raises(LookupError, match="cannot be beside"):
        found.state_of([("1g.24gb+me.all", 0), ("1g.24gb", 3)])


def test_one_optical_flow_engine_is_given_once() -> None:
    found = Layouts(RTX, ("1g.24gb", "1g.24gb+me", "1g.24gb+me.all"))
    assert all(found.counts(state)[1] <= 1 for state in found.states)


def test_the_order_that_drivers_choose_leaves_no_room_and_the_named_start_does() -> None:
    # NVIDIA's own example: 1g, 1g, 2g placed by order at 6, 4 and 0 leave no half for 3g; named, all four fit.
    found = layouts("a100-40gb", "mig")
    by_order = found.state_of([("1g.5gb", 6), ("1g.5gb", 4), ("2g.10gb", 0)])
    assert "3g.20gb" not in {found.names[p.profile] for p in found.additions(by_order)}
    assert found.state_of([("3g.20gb", 4), ("1g.5gb", 0), ("2g.10gb", 2), ("1g.5gb", 1)]) in found.states


STATES = st.sampled_from(layouts("h200-141gb", "mig").states)


@given(STATES, STATES)
def test_a_path_between_states_is_legal_at_every_step_and_keeps_what_both_have(before: int, after: int) -> None:
    found = layouts("h200-141gb", "mig")
    state = before
    for step in found.path(before, after):
        bit = 1 << found.placement(step.profile, step.start).index
        assert not bit & before & after
        state ^= bit
        assert state in found.states
    assert state == after


@given(STATES)
def test_moves_are_the_states_one_instance_away(state: int) -> None:
    found = layouts("h200-141gb", "mig")
    near = {other for other in found.states if (other ^ state).bit_count() == 1}
    assert {after for _, after in found.moves(state)} == near


def test_no_two_instances_of_a_state_share_a_unit_and_units_are_counted() -> None:
    for key in ("a30-24gb", "h100-nvl-94gb", "rtx-pro-6000-96gb"):
        found = layouts(key, "mig")
        for state in found.states:
            taken = [set(range(p.start, p.start + found.profiles[p.profile].size)) for p in found.members(state)]
            assert not any(one & other for one, other in combinations(taken, 2))
            assert found.free_units(state) == found.units - sum(map(len, taken))


def test_shares_fill_a_gpu_like_halves_quarters_and_eighths() -> None:
    found = layouts("h100-sxm-80gb", "shares")
    for half, quarter, eighth in found.vectors:
        assert 4 * half + 2 * quarter + eighth <= 8
    assert all(4 * half + 2 * quarter + eighth == 8 for half, quarter, eighth in found.patterns)
