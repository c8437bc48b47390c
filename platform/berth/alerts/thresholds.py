"""What the rules compare with, as an operator set it (``berth.options``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares are of 1. ``least_requests``: of fewer in a window no rate is judged."""

    burn_fast: float = 14.4
    burn_slow: float = 6.0
    least_requests: int = 20
    budget_days: int = 30
    budget_left: float = 0.2
    limit_share: float = 0.9
    quota_share: float = 0.9
    crashes: int = 3
    node_silent_s: int = 60


def thresholds() -> Thresholds:
    return Thresholds()
