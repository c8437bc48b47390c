"""How many drafts: against every plan there is, with simulated times."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.speculative.controller import FIRST_PROBE, LAST_PROBE, Acceptance, Controller, StepTimes, best_plan


def speed(rates: list[float], plan: tuple[int, ...], step_s: list[float], round_s: float) -> float:
    """Expected tokens per second of a plan: each draft counts while all before it were right."""
    tokens = sum(1 + sum(rate**j for j in range(1, depth + 1)) for rate, depth in zip(rates, plan, strict=True))
    return tokens / (step_s[sum(plan)] + max(plan, default=0) * round_s)


@given(
    requests=st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(0, 4)), min_size=1, max_size=4),
    costs=st.lists(st.floats(0.0, 2.0), min_size=16, max_size=16),
    budget=st.integers(0, 16),
    round_s=st.sampled_from([0.0, 0.05, 0.3, 2.0]),
)
@settings(max_examples=200, deadline=None)
def test_no_other_plan_is_quicker(
    requests: list[tuple[float, int]], costs: list[float], budget: int, round_s: float
) -> None:
    rates, depths = [rate for rate, _ in requests], [depth for _, depth in requests]
    step_s = [1.0 + cost for cost in itertools.accumulate(costs, initial=0.0)][: budget + 1]
    plan, factor = best_plan(np.array(rates), np.array(depths), np.array(step_s), round_s)
    chosen = tuple(int(depth) for depth in plan)
    assert all(depth <= most for depth, most in zip(chosen, depths, strict=True))
    every = itertools.product(*(range(depth + 1) for depth in depths))
    best = max(speed(rates, one, step_s, round_s) for one in every if sum(one) <= budget)
    assert speed(rates, chosen, step_s, round_s) == pytest.approx(best)
    assert factor == pytest.approx(best / speed(rates, (0,) * len(rates), step_s, round_s))


class Device:
    """Steps take ``fixed_s`` and ``token_s`` for each token; ``rate`` of the drafts are right."""

    def __init__(self, fixed_s: float, token_s: float, rate: float, round_s: float = 0.0, noise: float = 0.1) -> None:
        self.fixed_s, self.token_s, self.rate, self.round_s = fixed_s, token_s, rate, round_s
        self._noise = noise
        self._random = random.Random(5)

    def run(self, controller: Controller, rows: int, steps: int, most: int = 4) -> list[list[int]]:
        plans = []
        for _ in range(steps):
            plan = controller.choose(range(rows), [most] * rows, 512)
            if any(plan):
                controller.note_round(rows, self.round_s)
            tokens = rows + sum(plan)
            took_s = (self.fixed_s + self.token_s * tokens) * (1 + self._noise * self._random.random())
            controller.times.note(rows, tokens, took_s)
            for key, depth in enumerate(plan):
                if depth:
                    right = next((i for i in range(depth) if self._random.random() > self.rate), depth)
                    controller.acceptance.note(key, right, depth)
            plans.append(plan)
        return plans


def test_where_tokens_cost_a_step_each_nothing_is_drafted_but_probes() -> None:
    plans = Device(fixed_s=0.0, token_s=0.01, rate=0.6).run(Controller(), rows=4, steps=2000)
    drafted = [step for step, plan in enumerate(plans) if any(plan)]
    late = [step for step in drafted if step > 100]
    assert 1 <= len(late) <= 12
    assert all(plans[step] == [1] * 4 for step in late)


def test_where_tokens_ride_along_for_nothing_all_are_drafted() -> None:
    plans = Device(fixed_s=0.02, token_s=0.0, rate=0.8, noise=0.01).run(Controller(), rows=2, steps=300)
    assert sum(plan == [4, 4] for plan in plans[50:]) > 240


def test_rounds_that_cost_more_than_they_bring_are_not_run() -> None:
    plans = Device(fixed_s=0.02, token_s=0.0, rate=0.5, round_s=0.03).run(Controller(), rows=1, steps=600)
    assert sum(any(plan) for plan in plans[100:]) <= 8


def test_a_text_that_begins_to_repeat_is_found_out_by_a_probe() -> None:
    controller = Controller()
    device = Device(fixed_s=0.02, token_s=0.001, rate=0.0, noise=0.01)
    quiet = device.run(controller, rows=1, steps=1500)
    assert sum(any(plan) for plan in quiet[200:]) <= 8
    device.rate = 1.0
    loud = device.run(controller, rows=1, steps=4 * LAST_PROBE)
    assert sum(plan == [4] for plan in loud[-200:]) > 150


def test_each_request_gets_by_its_own_acceptance() -> None:
    controller = Controller()
    for _ in range(60):
        controller.acceptance.note(0, 4, 4)
        controller.acceptance.note(1, 0, 4)
        controller.times.note(2, 2, 0.020)
        controller.times.note(2, 10, 0.030)
    plan = controller.choose([0, 1], [4, 4], 100)
    assert plan[0] >= 3
    assert plan[1] == 0


def test_nothing_is_drafted_before_a_step_was_measured_or_beyond_the_budget() -> None:
    controller = Controller()
    assert controller.choose([1, 2], [4, 4], 100) == [0, 0]
    controller.times.note(2, 2, 1.0)
    assert sum(controller.choose([1, 2], [4, 4], 3)) == 3
    assert controller.choose([1, 2], [0, 0], 100) == [0, 0]


def test_probes_grow_rare() -> None:
    controller = Controller()
    controller.times.note(1, 1, 1.0)
    controller.times.note(1, 2, 2.5)
    found = [step for step in range(4000) if any(controller.choose([1], [1], 9))]
    gaps = np.diff([-1, *found])
    assert gaps[0] == FIRST_PROBE
    assert list(gaps) == sorted(gaps)
    assert max(gaps) == LAST_PROBE


def test_times_are_lines_between_what_was_measured_and_level_beyond() -> None:
    times = StepTimes()
    assert times.estimate(4, np.array([4.0])) is None
    times.note(4, 4, 1.0)
    times.note(4, 8, 3.0)
    found = times.estimate(4, np.array([4.0, 6.0, 8.0, 20.0]))
    assert found is not None
    assert found.tolist() == [1.0, 2.0, 3.0, 3.0]
    assert times.estimate(3, np.array([4.0])) is None
    for _ in range(50):
        times.note(4, 8, 2.0)
    found = times.estimate(4, np.array([8.0]))
    assert found is not None
    assert found[0] == pytest.approx(2.0, abs=0.01)


def test_a_measurement_that_is_long_ago_is_replaced() -> None:
    times = StepTimes(forget_after=100)
    times.note(1, 2, 9.0)
    for _ in range(100):
        times.note(1, 1, 1.0)
    times.note(1, 2, 1.5)
    found = times.estimate(1, np.array([2.0]))
    assert found is not None
    assert found[0] == pytest.approx(1.5)


def test_a_request_departs_from_the_common_rate_and_is_forgotten() -> None:
    acceptance = Acceptance()
    assert acceptance.rate(1) == 0.5
    for _ in range(400):
        acceptance.note(1, 3, 4)
    assert acceptance.rate(2) == pytest.approx(0.75, abs=0.02)
    for _ in range(60):
        acceptance.note(2, 0, 4)
    assert acceptance.rate(2) < 0.2
    acceptance.free(2)
    acceptance.free(1)
    assert acceptance._own == {}
