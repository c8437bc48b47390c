"""How many threads a step may use while other processes want the cores too.

A parallel region ends when its slowest thread does. With one core taken by a neighbour, two threads wait for the
kernel's scheduler in each of some 400 regions a step (measured on two cores, SmolLM2-135M: 36 ms a step alone, about
1000 ms beside a busy process, 60 to 100 ms there on one thread). So the busy time of others is watched and their
cores are left to them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PERIOD_S = 0.1
_SMOOTHING = 0.5
_UP, _DOWN = 0.6, 0.4


class ThreadGovernor:
    """Calls ``apply`` with a thread count between 1 and ``most`` whenever it should change."""

    def __init__(
        self,
        most: int,
        apply: Callable[[int], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] | None = None,
        own: Callable[[], float] = time.process_time,
    ) -> None:
        """``busy`` gives the CPU seconds of everyone on this process's cores, ``own`` those of this process."""
        self._most = most
        self._apply = apply
        self._clock = clock
        self._busy = busy or cores_busy_s
        self._own = own
        self._cores = len(_own_cores())
        self._others = 0.0
        self._last = (clock(), self._busy(), own())
        self.threads = most

    def watch(self) -> None:
        """Looks again when ``PERIOD_S`` has passed; cheap enough for every step."""
        now_s = self._clock()
        then_s, busy_then, own_then = self._last
        if self._most == 1 or now_s - then_s < PERIOD_S:
            return
        busy, own = self._busy(), self._own()
        self._last = (now_s, busy, own)
        others = max(0.0, (busy - busy_then) - (own - own_then)) / (now_s - then_s)
        self._others += _SMOOTHING * (others - self._others)
        free = self._cores - self._others
        # Between the two borders the count stays as it is, so that a neighbour at half a core causes no flutter.
        lower, upper = int(free + _DOWN), int(free + _UP)
        wanted = min(max(self.threads, lower), upper)
        wanted = max(1, min(self._most, wanted))
        if wanted != self.threads:
            self.threads = wanted
            self._apply(wanted)


def cores_busy_s() -> float:
    """CPU seconds that the cores of this process have spent on anyone since boot (proc(5), /proc/stat)."""
    ticks = 0
    names = {f"cpu{core}" for core in _own_cores()}
    for line in Path("/proc/stat").read_text("ascii").splitlines():
        name, *fields = line.split()
        if name in names:
            times = [int(value) for value in fields[:8]]
            ticks += sum(times) - times[3] - times[4]
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_cores() -> set[int]:
    return os.sched_getaffinity(0)
