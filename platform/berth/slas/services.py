"""Writes of service classes; those of contracts are in ``slas.contracts`` and re-exported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from berth.audit.services import changes, record
from berth.core.errors import Conflict, Invalid
from berth.core.version import raise_version
from berth.deployments.models import Deployment
from berth.slas.contracts import change_contract, end_contract, follow_deployment, grant_contract, renew_for_class
from berth.slas.models import TERM_FIELDS, Contract, Isolation, ServiceClass
from berth.slas.tiers import naming

__all__ = [
    "change_class",
    "change_contract",
    "create_class",
    "delete_class",
    "end_contract",
    "ensure_default_classes",
    "follow_deployment",
    "grant_contract",
]

DEFAULT_CLASSES: dict[str, dict[str, Any]] = {
    "chat": {"description": "Conversation, read as it comes", "base_ms": 1000, "tpot_ms": 100, "stretch_tpot_ms": 50},
    "code": {
        "description": "Completion and agents",
        "base_ms": 200,
        "free_prompt_tokens": 4000,
        "prefill_tokens_per_s": 40_000,
        "tpot_ms": 60,
        "stretch_tpot_ms": 30,
    },
    "rag": {"description": "Long prompts", "base_ms": 1000, "prefill_tokens_per_s": 10_000, "tpot_ms": 100},
    "batch": {"description": "Throughput, in the slack of the others", "e2e_ms": 24 * 3600 * 1000},
}


def ensure_default_classes() -> dict[str, ServiceClass]:
    """The four classes of docs/goodput.md by name. One that exists stays as the operator left it."""
    found = {}
    for name, values in DEFAULT_CLASSES.items():
        found[name], _ = ServiceClass.objects.get_or_create(name=name, defaults=values)
    return found


@transaction.atomic
def create_class(*, name: str, actor: str, **values: Any) -> ServiceClass:
    """``values``: the other fields of ``ServiceClass``. Raises ``Conflict`` for a name that is taken."""
    made = ServiceClass(name=name, **values)
    _check(made)
    try:
        with transaction.atomic():
            made.save()
    except IntegrityError as error:
        raise Conflict(f"A service class named {name!r} exists", field="name", code="name_taken") from error
    record(actor=actor, action="class.create", obj=made, after={"name": name, **_plain(values)})
    raise_version()
    return made


@transaction.atomic
def change_class(*, service_class: ServiceClass, actor: str, **values: Any) -> ServiceClass:
    """Holds for requests that arrive from now on: contracts of the class go on under a new version of their own.

    What was judged before keeps the limits it was judged by (``UsageRecord``, ``Contract.terms``).
    """
    service_class = ServiceClass.objects.select_for_update().get(id=service_class.id)
    before, after = changes(service_class, values)
    if after:
        for field, value in after.items():
            setattr(service_class, field, value)
        _check(service_class)
        service_class.save(update_fields=list(after))
        renewed = renew_for_class(service_class=service_class, actor=actor) if set(after) & set(TERM_FIELDS) else 0
        after = _plain(after) | ({"contracts_renewed": renewed} if renewed else {})
        record(actor=actor, action="class.change", obj=service_class, before=_plain(before), after=after)
        raise_version()
    return service_class


@transaction.atomic
def delete_class(*, service_class: ServiceClass, actor: str) -> None:
    """Raises ``Conflict`` while a deployment or a contract names it, also one that ended: it is their history."""
    row = ServiceClass.objects.select_for_update().get(id=service_class.id)
    deployments = Deployment.objects.for_platform().filter(service_class=row).count()
    versions = Contract.objects.for_platform().filter(Q(service_class=row) | naming(row)).count()
    if deployments or versions:
        users = [f"{deployments} deployment{'s' * (deployments > 1)}"] if deployments else []
        users += [f"{versions} contract version{'s' * (versions > 1)}"] if versions else []
        raise Conflict(
            f"The class {row.name!r} is named by {' and '.join(users)}. Move deployments to another class first; "
            "a class that a contract ever named stays, since its usage was judged by it",
            code="class_in_use",
        )
    record(actor=actor, action="class.delete", obj=row, before={"name": row.name, **row.terms()})
    row.delete()
    raise_version()


def _check(row: ServiceClass) -> None:
    if row.isolation not in Isolation.values:
        raise Invalid(f"isolation is one of {', '.join(Isolation.values)}", field="isolation")
    if row.prefill_tokens_per_s is not None and row.base_ms is None:
        raise Invalid("A prefill rate extends the TTFT: set base_ms as well", field="base_ms")
    if row.stretch_tpot_ms is not None and (row.tpot_ms is None or row.stretch_tpot_ms > row.tpot_ms):
        raise Invalid("The stretch goal lies below the promised TPOT", field="stretch_tpot_ms")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Prices as the text the log keeps."""
    return {name: str(value) if name.startswith("price_") else value for name, value in values.items()}
