"""A condition that holds: what the rules find, before anything is remembered of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """``subject`` tells two of one rule apart; ``hold``: for how long it must be seen before anyone is told.

    ``tenant_id`` None: the platform's own affair.
    """

    rule: str
    severity: str
    subject: str
    subject_kind: str
    subject_id: str
    subject_name: str
    summary: str
    tenant_id: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    hold: timedelta = timedelta(0)

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject
