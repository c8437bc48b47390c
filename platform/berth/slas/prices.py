"""What tokens cost: prices a million tokens, exact to the tenth decimal of the currency's unit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from berth.options.selectors import get
from gpuruntime.goodput import Outcome

MILLION = 1_000_000
# What failed on our side costs nothing; a client that left pays for what was generated for it.
CHARGED = frozenset({Outcome.COMPLETED.value, Outcome.CLIENT_LEFT.value, Outcome.CLIENT_SLOW.value})


def cost_of(
    terms: Mapping[str, Any], *, outcome: str, prompt_tokens: int, cached_tokens: int, completion_tokens: int
) -> Decimal:
    """Cached tokens of the prompt cost ``price_cached``, its others ``price_input``. ``terms``: ``Contract.terms``."""
    if outcome not in CHARGED:
        return Decimal(0)
    cached = min(cached_tokens, prompt_tokens)
    parts = (
        ("price_input", prompt_tokens - cached),
        ("price_cached", cached),
        ("price_output", completion_tokens),
    )
    return sum((Decimal(str(terms.get(name, 0))) * tokens for name, tokens in parts), Decimal(0)) / MILLION


def currency() -> str:
    """ISO 4217, of the platform's settings."""
    return str(get("currency"))
