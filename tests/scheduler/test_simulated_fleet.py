"""Two thousand steps on 64 simulated GPUs: deploys, scales, contracts, silence, failing devices, crashes and kills."""

from __future__ import annotations

import pytest

from helpers.simulated_fleet import SimulatedFleet


@pytest.mark.parametrize("seed", [1])
def test_two_thousand_steps(seed: int) -> None:
    fleet = SimulatedFleet(seed)
    for number in range(1, 2001):
        if number % 2:
            fleet.happen()
        fleet.step()
        if number % 200 == 100:
            fleet.make_plan()
        if number % 200 == 0:
            assert fleet.settle(10)
            assert fleet.waits_in_vain() == []
    assert fleet.ended["done"] > 0
    assert fleet.deployed > 100
