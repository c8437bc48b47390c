"""The governor on a simulated clock, and its reading of the real machine."""

from __future__ import annotations

import os
import time

from gpuruntime.engine.contention import ThreadGovernor, cores_busy_s


class Machine:
    """Time passes in 0.2 s steps in which others use ``others`` cores and we use all we may."""

    def __init__(self) -> None:
        self.now = self.busy = self.own = 0.0
        self.applied: list[int] = []
        cores = len(os.sched_getaffinity(0))
        self.governor = ThreadGovernor(
            cores, self.applied.append, clock=lambda: self.now, busy=lambda: self.busy, own=lambda: self.own
        )
        self.cores = cores

    def run(self, others: float, steps: int = 10) -> int:
        for _ in range(steps):
            self.now += 0.2
            self.own += 0.2 * self.governor.threads
            self.busy += 0.2 * (self.governor.threads + others)
            self.governor.watch()
        return self.governor.threads


def test_busy_neighbours_get_their_cores_and_idle_ones_give_them_back() -> None:
    machine = Machine()
    assert machine.run(0.0) == machine.cores
    assert machine.applied == []
    assert machine.run(1.0) == max(1, machine.cores - 1)
    assert machine.run(float(machine.cores)) == 1
    assert machine.run(0.0) == machine.cores


def test_a_neighbour_at_half_a_core_causes_no_flutter() -> None:
    machine = Machine()
    machine.run(1.0)
    changes = len(machine.applied)
    for others in (0.45, 0.55) * 10:
        machine.run(others, steps=1)
    assert len(machine.applied) - changes <= 1


def test_the_machine_is_read_in_seconds() -> None:
    before, own = cores_busy_s(), time.process_time()
    while time.process_time() - own < 0.2:
        pass
    # Ticks are 10 ms and each core's own.
    assert cores_busy_s() - before > 0.15
