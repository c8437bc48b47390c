"""How many drafts each request gets in the next step: as many as the measured rates say will pay.

A step over ``R`` requests gives ``R`` tokens without drafts. The ``j``-th draft of a request whose drafts are right
with probability ``a`` adds ``a^j`` tokens, so among all plans with ``m`` drafts the one with the ``m`` largest gains
gives most, and it is a valid plan, because a request's gains fall with ``j``. What is compared is tokens per second:

    (R + sum of gains) / (step seconds of R requests and R + m tokens + seconds of the rounds of drafting)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Below this advantage the measured times do not tell which plan is better.
MARGIN = 1.02
FIRST_PROBE, LAST_PROBE = 16, 512
_PRIOR_WEIGHT = 4.0


class StepTimes:
    """Moving averages of seconds by rows and tokens of a step; sizes nearby share one."""

    def __init__(self, smoothing: float = 0.2, forget_after: int = 256) -> None:
        self._smoothing = smoothing
        self._forget_after = forget_after
        self._notes = 0
        self._known: dict[int, dict[int, tuple[float, float, int]]] = {}

    def note(self, rows: int, tokens: int, took_s: float) -> None:
        """A measurement counts more the longer the last one of its kind is ago."""
        self._notes += 1
        sizes = self._known.setdefault(_coarse(rows), {})
        size, seconds, when = sizes.get(_coarse(tokens), (float(tokens), took_s, self._notes))
        weight = max(self._smoothing, min(1.0, (self._notes - when) / self._forget_after))
        sizes[_coarse(tokens)] = (size + weight * (tokens - size), seconds + weight * (took_s - seconds), self._notes)

    def estimate(self, rows: int, tokens: Floats) -> Floats | None:
        """Seconds of steps with ``rows`` rows and each number of ``tokens``; None before such rows were measured.

        Between two measured sizes it is a line, beyond the largest it stays: a size that was never tried seems as
        quick as the one below it, and one trial corrects that.
        """
        sizes = self._known.get(_coarse(rows))
        if sizes is None:
            return None
        points = sorted(sizes.values())
        return np.interp(tokens, [point[0] for point in points], [point[1] for point in points])


def _coarse(count: int) -> int:
    """Up to 8 as it is, beyond that in steps of an eighth to a quarter."""
    step = 1 << max(0, count.bit_length() - 3)
    return count if count <= 8 else count // step * step


class Acceptance:
    """How often drafts were right: one rate for all, from which each request's own departs as it shows."""

    def __init__(self) -> None:
        self._all = [1.0, 2.0]
        self._own: dict[int, list[float]] = {}

    def note(self, key: int, accepted: int, proposed: int) -> None:
        """``accepted`` of ``proposed`` drafts were right; behind the first wrong one nothing was tried."""
        tried = min(accepted + 1, proposed)
        for counts, memory in ((self._all, 0.995), (self._own.setdefault(key, [0.0, 0.0]), 0.95)):
            counts[0] = memory * counts[0] + accepted
            counts[1] = memory * counts[1] + tried

    def rate(self, key: int) -> float:
        right, tried = self._own.get(key, (0.0, 0.0))
        prior = self._all[0] / self._all[1]
        return (right + _PRIOR_WEIGHT * prior) / (tried + _PRIOR_WEIGHT)

    def free(self, key: int) -> None:
        self._own.pop(key, None)


def best_plan(
    rates: Floats, depths: NDArray[np.int64], step_s: Floats, round_s: float
) -> tuple[NDArray[np.int64], float]:
    """The drafts of each request that give most tokens per second, and by what factor over none.

    rates: ``[R]``, the probability that a draft is right. depths: ``[R]``, drafts that can be had. step_s: ``[M + 1]``
    seconds of the step with 0 .. M drafts in all. round_s: seconds of a round of drafting, which gives every request
    one draft; a plan takes as many rounds as its deepest request.
    """
    rows, most = len(rates), int(depths.max(initial=0))
    plan, best = np.zeros(rows, dtype=np.int64), 1.0
    base = rows / step_s[0]
    # Rounds that cost nothing need no bound on their number.
    for rounds in [most] if round_s == 0 else range(1, most + 1):
        levels = np.arange(1, rounds + 1)
        gains = np.where(levels[:, None] <= depths, rates ** levels[:, None], -1.0)
        order = np.argsort(-gains, axis=None, kind="stable")
        usable = min(int(np.minimum(depths, rounds).sum()), len(step_s) - 1)
        tokens = rows + np.concatenate(([0.0], np.cumsum(gains.ravel()[order[:usable]])))
        speed = tokens / (step_s[: usable + 1] + rounds * round_s) / base
        count = int(speed.argmax())
        if speed[count] > best:
            best = float(speed[count])
            plan = np.bincount(order[:count] % rows, minlength=rows)
    return plan, best


class Controller:
    """Chooses drafts and learns from what became of them."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self.acceptance = Acceptance()
        self._round_s = StepTimes()
        self._quiet = 0
        self._probe_after = FIRST_PROBE

    def choose(self, keys: Sequence[int], depths: Sequence[int], budget: int) -> list[int]:
        """Drafts for each of the requests ``keys``, at most ``depths`` each and ``budget`` together."""
        nothing = [0] * len(keys)
        available = min(sum(depths), budget)
        step_s = self.times.estimate(len(keys), len(keys) + np.arange(available + 1.0))
        if step_s is None or available == 0:
            return nothing
        rates = np.array([self.acceptance.rate(key) for key in keys])
        round_s = self._round_s.estimate(len(keys), np.array([1.0]))
        plan, factor = best_plan(rates, np.array(depths), step_s, 0.0 if round_s is None else float(round_s[0]))
        if factor > MARGIN:
            self._quiet, self._probe_after = 0, FIRST_PROBE
            return [int(count) for count in plan]
        self._quiet += 1
        if self._quiet < self._probe_after:
            return nothing
        self._quiet, self._probe_after = 0, min(2 * self._probe_after, LAST_PROBE)
        return _one_each(depths, budget)

    def note_round(self, rows: int, took_s: float) -> None:
        """One round of drafting for ``rows`` requests took ``took_s``."""
        self._round_s.note(rows, 1, took_s)

    def free(self, key: int) -> None:
        self.acceptance.free(key)


def _one_each(depths: Sequence[int], budget: int) -> list[int]:
    """A probe: what one draft for each is worth now."""
    plan = []
    for depth in depths:
        plan.append(min(1, depth, budget))
        budget -= plan[-1]
    return plan
