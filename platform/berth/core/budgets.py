"""Budgets of a calendar day and month, UTC: the columns of what has some, and what may be written there."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models

from berth.core.errors import Invalid

BUDGETS = ("tokens_per_day", "cost_per_day", "tokens_per_month", "cost_per_month")
MAX_TOKENS = 2**53 - 1
# Admission counts money in 64 bits of 1e-10: half of them are left for what goes beyond a budget.
MAX_COST = Decimal(400_000_000)


def _tokens_field() -> models.BigIntegerField[int | None, int | None]:
    return models.BigIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])


def _cost_field() -> models.DecimalField[Decimal | None, Decimal | None]:
    """In the platform's currency."""
    return models.DecimalField(
        max_digits=13, decimal_places=4, null=True, blank=True, validators=[MinValueValidator(Decimal("0.0001"))]
    )


class Budgeted(models.Model):
    """What its requests to ``/v1`` may use: tokens in and out, and what they cost. None: no such budget."""

    tokens_per_day = _tokens_field()
    cost_per_day = _cost_field()
    tokens_per_month = _tokens_field()
    cost_per_month = _cost_field()

    class Meta:
        abstract = True


def check_budgets(values: Mapping[str, Any]) -> None:
    """Raises ``Invalid``; names that are no budget's are let pass."""
    for name in BUDGETS:
        value = values.get(name)
        most = MAX_TOKENS if name.startswith("tokens") else MAX_COST
        if value is not None and not 0 < value <= most:
            raise Invalid(f"{value}: expected more than 0 and at most {most}, or empty for no budget", field=name)
