"""What the rules compare with: some of it an operator's to set (``berth.options``, group "alerts")."""

from __future__ import annotations

from dataclasses import dataclass

from berth.options.selectors import get


@dataclass(frozen=True, slots=True)
class Thresholds:
    """``near``: the share of a budget, limit or quota from which it is nearly used. ``least_requests``: of fewer in a
    window no rate is judged.
    """

    burn_fast: float = 14.4
    burn_slow: float = 6.0
    near: float = 0.8
    crashes: int = 3
    node_silent_s: int = 30
    least_requests: int = 20
    budget_days: int = 30


def thresholds() -> Thresholds:
    return Thresholds(
        burn_fast=get("burn_rate_fast"),
        burn_slow=get("burn_rate_slow"),
        near=get("budget_near_fraction"),
        crashes=get("crash_loop_restarts"),
        node_silent_s=get("node_lost_after_s"),
    )
