"""Reads of decisions."""

from __future__ import annotations

from berth.core.scoping import Scope, ScopedQuerySet
from berth.decisions.models import Decision


def decisions(scope: Scope) -> ScopedQuerySet:
    """About a tenant's deployments; about everyone's for an operator."""
    return scope.of(Decision.objects)
