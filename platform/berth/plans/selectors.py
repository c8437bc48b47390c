"""Reads of plans: the operator's."""

from __future__ import annotations

from django.db.models import F, Func, IntegerField, QuerySet

from berth.plans.models import Plan

# What one reads of a single plan: of a large fleet, a megabyte.
WHOLE = ("inputs", "candidates", "changes", "waves", "pending")


class _Length(Func):
    function = "jsonb_array_length"
    output_field = IntegerField()


def plans() -> QuerySet[Plan]:
    """With ``waves_total`` and ``pending_total``."""
    return Plan.objects.annotate(waves_total=_Length(F("waves")), pending_total=_Length(F("pending")))


def lines() -> QuerySet[Plan]:
    """The same without what only one plan's page shows."""
    return plans().defer(*WHOLE)
