"""What tokens cost, in money: exact to the tenth decimal of the currency's unit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from berth.options.selectors import get
from berth.slas.costs import Prices, to_money


def cost_of(
    terms: Mapping[str, Any], *, outcome: str, prompt_tokens: int, cached_tokens: int, completion_tokens: int
) -> Decimal:
    """Cached tokens of the prompt cost ``price_cached``, its others ``price_input``. ``terms``: ``Contract.terms``."""
    cost = Prices.of(terms).cost(
        outcome=outcome,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        completion_tokens=completion_tokens,
    )
    return to_money(cost)


def currency() -> str:
    """ISO 4217, of the platform's settings."""
    return str(get("currency"))
