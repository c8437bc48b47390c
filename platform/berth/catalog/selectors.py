"""Reads of models: the platform's, for every signed-in person, and tenants' own."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from berth.catalog.models import Model
from berth.core.scoping import PLATFORM, Scope


def models(scope: Scope = PLATFORM) -> QuerySet[Model]:
    """The platform's, and those of the tenants in ``scope``."""
    rows = Model.objects.select_related("tenant")
    if scope.tenant_ids is None:
        return rows
    return rows.filter(Q(tenant=None) | Q(tenant_id__in=scope.tenant_ids))
