"""Every setting an operator changes while the platform runs: what it is, its default and its range.

What a process needs to start (addresses, paths, secrets) is in ``berth.config`` instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from berth.core.errors import Invalid

Kind = Literal["integer", "number", "text", "boolean", "choice"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GROUPS = ("console", "retention", "fleet", "alerts", "security")


@dataclass(frozen=True, slots=True)
class Option:
    """``low`` and ``high`` bound numbers, and the length of a text. ``public``: read by people who are signed out."""

    key: str
    kind: Kind
    default: Any
    group: str
    description: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    public: bool = False

    def checked(self, value: Any) -> Any:
        """``value`` as it is stored. Raises ``Invalid`` naming what is allowed."""
        accepted = _ACCEPTED[self.kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.kind != "boolean"):
            raise self._refusal(value, f"expected {_WORDS[self.kind]}")
        if self.kind == "choice" and value not in self.choices:
            raise self._refusal(value, f"expected one of {', '.join(self.choices)}")
        if self.kind == "text":
            value = value.strip()
            if _CONTROL.search(value):
                raise self._refusal(value, "control characters are not allowed")
        size = len(value) if isinstance(value, str) else value
        if self.kind != "choice" and self.low is not None and not size >= self.low:
            raise self._refusal(value, f"at least {self._amount(self.low)}")
        if self.kind != "choice" and self.high is not None and not size <= self.high:
            raise self._refusal(value, f"at most {self._amount(self.high)}")
        return float(value) if self.kind == "number" else value

    def _amount(self, bound: float) -> str:
        return f"{bound:g} characters" if self.kind == "text" else f"{bound:g} {self.unit}".strip()

    def _refusal(self, value: Any, allowed: str) -> Invalid:
        return Invalid(f"{value!r}: {allowed}", field="value")


_ACCEPTED: dict[str, Any] = {
    "integer": int,
    "number": int | float,
    "text": str,
    "boolean": bool,
    "choice": str,
}
_WORDS = {"integer": "a whole number", "number": "a number", "text": "a text", "boolean": "true or false", "choice": ""}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_ALL = (
    Option("console_name", "text", "Berth", "console", "What the console calls this platform", "", 1, 40, public=True),
    Option(
        "currency", "choice", "USD", "console", "In which prices and costs are given; changing it converts nothing",
        choices=("USD", "EUR", "CNY", "GBP", "JPY", "INR", "KRW", "CHF"), public=True,
    ),
    Option("usage_retention_days", "integer", 400, "retention", "How long usage records are kept", "days", 1, 3650),
    Option("windows_retention_days", "integer", 90, "retention", "How long minutes of goodput stay", "days", 1, 3650),
    Option(
        "sums_retention_days", "integer", 1100, "retention",
        "How long hours of usage, and hours and days of goodput stay; never less than what they were added up from",
        "days", 1, 36500,
    ),
    Option(
        "usage_seal_after_minutes", "integer", 60, "retention",
        "How long after its end an hour of usage is sealed; what comes later is a correction of its own",
        "minutes", 5, 10080,
    ),
    Option("audit_retention_days", "integer", 730, "retention", "How long the audit trail is kept", "days", 30, 36500),
    Option("decisions_retention_days", "integer", 30, "retention", "How long decisions are kept", "days", 1, 3650),
    Option("device_history_hours", "integer", 24, "retention", "How long a device's history is kept", "hours", 1, 720),
    Option("logs_retention_days", "integer", 7, "retention", "How long replicas' log lines are kept", "days", 1, 90),
    Option("drain_timeout_s", "integer", 600, "fleet", "How long a draining replica may finish requests", "s", 1, 3600),
    Option(
        "burn_rate_fast", "number", 14.4, "alerts",
        "Alert when an error budget burns this many times too fast, over 1 hour", "times", 1, 1000,
    ),
    Option(
        "burn_rate_slow", "number", 6.0, "alerts",
        "Alert when an error budget burns this many times too fast, over 6 hours", "times", 1, 1000,
    ),
    Option("crash_loop_restarts", "integer", 3, "alerts", "Alert after so many failed starts", "starts", 1, 100),
    Option("node_lost_after_s", "integer", 30, "alerts", "Alert when a node is silent for so long", "s", 10, 3600),
    Option("budget_near_fraction", "number", 0.8, "alerts", "Alert when so much of a limit is used", "of 1", 0.1, 1),
    Option("lockout_attempts", "integer", 8, "security", "Failed sign-ins before a person is locked out", "", 3, 100),
    Option("lockout_minutes", "integer", 15, "security", "How long a person is locked out", "minutes", 1, 1440),
    Option("session_days", "integer", 14, "security", "How long a session lasts without use", "days", 1, 90),
    Option("invitation_days", "integer", 7, "security", "How long an invitation can be accepted", "days", 1, 60),
    Option("require_operator_mfa", "boolean", False, "security", "Operators must set up a second factor to go on"),
)  # fmt: skip

REGISTRY: dict[str, Option] = {option.key: option for option in _ALL}


def option(key: str) -> Option:
    """Raises ``KeyError`` naming what is known: a fault in our code."""
    if key not in REGISTRY:
        raise KeyError(f"no option {key!r}; berth/options/registry.py knows {', '.join(REGISTRY)}")
    return REGISTRY[key]
