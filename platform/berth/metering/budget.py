"""Error budgets. Pure.

A class that promises an attainment T allows (1 - T) of its offered requests to be bad. Over several classes what is
allowed adds up, so for one class:

    budget left = 1 - bad / allowed        1: untouched, 0: used up, below: overspent
    burn rate   = bad / allowed = (1 - attainment) / (1 - T)      1: as fast as the budget is meant to last

Source: Google, The Site Reliability Workbook, chapter 5, "Alerting on SLOs".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Counted(NamedTuple):
    """Requests of one class: how many were offered, how many of them good, and the share that should have been."""

    offered: int
    good: int
    target: float


@dataclass(frozen=True, slots=True)
class Spent:
    offered: int
    good: int
    allowed: float

    @property
    def bad(self) -> int:
        return self.offered - self.good

    @property
    def attainment(self) -> float | None:
        return self.good / self.offered if self.offered else None

    @property
    def target(self) -> float | None:
        """Of what was offered; None where nothing was."""
        return 1 - self.allowed / self.offered if self.offered else None

    @property
    def burn_rate(self) -> float | None:
        """None where a bad request was allowed none: a target of 1."""
        if self.bad == 0:
            return 0.0
        return self.bad / self.allowed if self.allowed > 0 else None

    @property
    def budget_left(self) -> float | None:
        burnt = self.burn_rate
        return None if burnt is None else 1 - burnt


def spent(counts: Iterable[Counted]) -> Spent:
    offered = good = 0
    allowed = 0.0
    for one in counts:
        offered, good = offered + one.offered, good + one.good
        allowed += one.offered * (1 - one.target)
    return Spent(offered, good, allowed)


def budget(period: Spent, hour: Spent, six_hours: Spent, target: float | None = None) -> dict[str, Any]:
    """As the API shows it. ``target``: to name where nothing was offered."""
    return {
        "target": target if period.target is None else period.target,
        "attained": period.attainment,
        "allowed": period.allowed,
        "bad": period.bad,
        "budget_left": period.budget_left,
        "burn_rate_1h": hour.burn_rate,
        "burn_rate_6h": six_hours.burn_rate,
    }
