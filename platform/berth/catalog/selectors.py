"""Reads of models. They are the platform's: every signed-in person may see them."""

from __future__ import annotations

from django.db.models import QuerySet

from berth.catalog.models import Model


def models() -> QuerySet[Model]:
    return Model.objects.all()
