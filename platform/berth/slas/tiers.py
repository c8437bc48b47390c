"""OpenAI's ``service_tier``: the classes that a contract allows beside its own, under OpenAI's words.

A contract's version keeps, for each tier, the class and what it promised then, as it does of its own class:
``{"flex": {"class_id": "cls_...", "class": "batch", "terms": {...}}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from berth.core.errors import Invalid
from berth.slas.models import ServiceClass

TIERS = ("flex", "priority", "scale")


def tiers_of(classes: Mapping[str, ServiceClass]) -> dict[str, dict[str, Any]]:
    """What a version keeps of the classes that a contract allows. Raises ``Invalid`` for a word that is no tier."""
    for name in classes:
        if name not in TIERS:
            raise Invalid(f"{name!r} is not a tier: expected one of {', '.join(TIERS)}", field="tiers")
    return {name: _kept(classes[name]) for name in TIERS if name in classes}


def renewed(tiers: Mapping[str, dict[str, Any]], service_class: ServiceClass) -> dict[str, dict[str, Any]]:
    """The same tiers, those of ``service_class`` with what it promises now."""
    return {
        name: _kept(service_class) if kept["class_id"] == service_class.id else kept for name, kept in tiers.items()
    }


def naming(service_class: ServiceClass) -> Q:
    """Contracts that allow the class under one of the tiers."""
    found = Q()
    for name in TIERS:
        found |= Q(**{f"tiers__{name}__class_id": service_class.id})
    return found


def classes_of(tiers: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """The names of the classes, by tier: what people read."""
    return {name: kept["class"] for name, kept in tiers.items()}


def terms_by_class(terms: Mapping[str, Any], tiers: Mapping[str, dict[str, Any]], class_name: str) -> Mapping[str, Any]:
    """What a version promised to a request of ``class_name``: its tier's terms, else its own."""
    for kept in tiers.values():
        if kept["class"] == class_name:
            promised: Mapping[str, Any] = kept["terms"]
            return promised
    return terms


def _kept(service_class: ServiceClass) -> dict[str, Any]:
    return {"class_id": service_class.id, "class": service_class.name, "terms": service_class.terms()}
