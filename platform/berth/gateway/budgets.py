"""Budgets of a day and a month, in UTC: how they are asked of the script, and what a request over one is told. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from berth.core.periods import DAY_S, month_of
from berth.gateway.errors import ApiError
from berth.gateway.limits import Over, whose
from berth.slas.costs import Prices, to_money

FIELDS = ("tokens_day", "cost_day", "tokens_month", "cost_month")


def months_around(at: float) -> list[int]:
    """Starts of the month of ``at``, the one before and two after: Redis may be in another than this clock."""
    return [month_of(at, later) for later in (-1, 0, 1, 2)]


def budget_refusal(over: Over, model: str, *, reserve: int, cost: int, prices: Prices, now: float) -> ApiError:
    """429, with OpenAI's code of a spent quota; nobody waits hours for an answer, so it is not to be sent again."""
    unit, period = over.what.split("_")
    amount = over.holder.limits.budgets[FIELDS.index(over.what)] or 0
    need = cost if unit == "cost" else reserve
    left = max(0, amount - over.used)

    def said(value: int) -> str:
        return f"{value} tokens" if unit == "tokens" else money(to_money(value), prices.currency)

    of, ends = whose(over.holder.owner, model), _ends(over.wait_ms, now)
    if need > amount:
        text = (
            f"The request may need {said(need)} (its prompt and max_tokens), more than the budget of {said(amount)} "
            f"a {period} {of}. Shorten the messages or lower max_tokens."
        )
    elif left:
        text = (
            f"The budget of {said(amount)} a {period} {of} has {said(left)} left, and the request may need "
            f"{said(need)} (its prompt and max_tokens). Shorten the messages or lower max_tokens. "
            f"The budget begins again at 00:00 UTC on {ends}."
        )
    else:
        text = f"The budget of {said(amount)} a {period} {of} is used up. It begins again at 00:00 UTC on {ends}."
    return ApiError(
        429, text, code="insufficient_quota", type="insufficient_quota", headers=[(b"x-should-retry", b"false")]
    )


def money(amount: Decimal, currency: str) -> str:
    """With cents at least, and as many decimals as it has: ``USD 5.00``, ``USD 0.000021``."""
    whole = f"{amount:f}".rstrip("0") if amount % 1 else f"{amount:.0f}."
    digits = len(whole.partition(".")[2])
    return f"{currency} {whole}{'0' * (2 - digits)}".strip()


def _ends(wait_ms: int, now: float) -> str:
    """Days and months end at midnight, so that this clock may differ from Redis' by hours."""
    midnight = round((now + wait_ms / 1000) / DAY_S) * DAY_S
    return datetime.fromtimestamp(midnight, UTC).strftime("%Y-%m-%d")
