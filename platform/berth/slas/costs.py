"""What tokens cost, in whole numbers: a price of a million tokens has four decimals, so one token costs a whole number
of 1e-10 of the currency's unit and every sum is exact. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpuruntime.goodput import Outcome

# What failed on our side costs nothing; a client that left pays for what was generated for it.
CHARGED = frozenset({Outcome.COMPLETED.value, Outcome.CLIENT_LEFT.value, Outcome.CLIENT_SLOW.value})
_DECIMALS = 10


def to_parts(money: Decimal) -> int:
    """An amount in 1e-10 of the currency's unit."""
    return int(money.scaleb(_DECIMALS))


def to_money(parts: int) -> Decimal:
    return Decimal(parts).scaleb(-_DECIMALS)


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one token, in 1e-10 of ``currency``'s unit; ``cached``: of a prompt's token found in the prefix cache."""

    input: int = 0
    cached: int = 0
    output: int = 0
    currency: str = ""

    @classmethod
    def of(cls, terms: Mapping[str, Any], currency: str = "") -> Prices:
        """``terms``: ``Contract.terms``."""
        millions = (Decimal(str(terms.get(f"price_{name}", 0))) for name in ("input", "cached", "output"))
        one_input, one_cached, one_output = (int(price.scaleb(4)) for price in millions)
        return cls(one_input, one_cached, one_output, currency)

    def cost(self, *, outcome: str, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> int:
        if outcome not in CHARGED:
            return 0
        cached = min(cached_tokens, prompt_tokens)
        return self.input * (prompt_tokens - cached) + self.cached * cached + self.output * completion_tokens

    def most(self, prompt_tokens: int, completion_tokens: int) -> int:
        """What so many tokens can cost, whatever of the prompt is found in the cache."""
        return max(self.input, self.cached) * prompt_tokens + self.output * completion_tokens


FREE = Prices()
