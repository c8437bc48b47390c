"""Limits of a tenant's or a key's requests: what may be written there."""

from __future__ import annotations

from collections.abc import Mapping

from berth.core.errors import Invalid
from berth.tenants.models import RATE_LIMITS

MAX_LIMIT = 2**31 - 1


def check_limits(limits: Mapping[str, int | None]) -> None:
    """Raises ``Invalid``. A key's may be above its tenant's: the smaller holds, whichever changes later."""
    for name, value in limits.items():
        if name not in RATE_LIMITS:
            raise Invalid(f"{name!r} is not a limit: expected one of {', '.join(RATE_LIMITS)}", field=name)
        if value is not None and not 1 <= value <= MAX_LIMIT:
            raise Invalid(f"{value}: expected 1 to {MAX_LIMIT}, or empty for no limit", field=name)
