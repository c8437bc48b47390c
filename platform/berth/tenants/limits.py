"""Limits of a tenant's or a key's requests: what may be written there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.core.budgets import BUDGETS, check_budgets
from berth.core.errors import Invalid
from berth.tenants.models import RATE_LIMITS

MAX_LIMIT = 2**31 - 1
LIMITS = (*RATE_LIMITS, *BUDGETS)


def check_limits(limits: Mapping[str, Any]) -> None:
    """Raises ``Invalid``. A key's may be above its tenant's: the smaller holds, whichever changes later."""
    for name in limits:
        if name not in LIMITS:
            raise Invalid(f"{name!r} is not a limit: expected one of {', '.join(LIMITS)}", field=name)
    check_budgets(limits)
    for name in RATE_LIMITS:
        value = limits.get(name)
        if value is not None and not 1 <= value <= MAX_LIMIT:
            raise Invalid(f"{value}: expected 1 to {MAX_LIMIT}, or empty for no limit", field=name)
