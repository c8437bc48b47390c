"""Reads of service classes and contracts."""

from __future__ import annotations

from django.db.models import QuerySet

from berth.core.scoping import Scope, ScopedQuerySet
from berth.slas.models import Contract, ServiceClass


def classes() -> QuerySet[ServiceClass]:
    return ServiceClass.objects.all()


def contracts(scope: Scope) -> ScopedQuerySet:
    """Every version; the open ones have no ``valid_until``."""
    return scope.of(Contract.objects).select_related("service_class", "deployment", "tenant")
