"""Writes of service classes and contracts."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from berth.audit.services import changes, record
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed
from berth.core.version import raise_version
from berth.deployments.models import Deployment
from berth.slas.models import Contract, ServiceClass
from berth.tenants.models import Tenant

DEFAULT_CLASSES: dict[str, dict[str, Any]] = {
    "chat": {"description": "Conversation", "base_ms": 1000, "tpot_ms": 100, "stretch_tpot_ms": 50},
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
LIMITS = ("requests_per_min", "tokens_per_min", "max_concurrency", "weight")


def ensure_default_classes() -> dict[str, ServiceClass]:
    """The four classes of docs/goodput.md by name. One that exists stays as the operator left it."""
    found = {}
    for name, values in DEFAULT_CLASSES.items():
        found[name], _ = ServiceClass.objects.get_or_create(name=name, defaults=values)
    return found


@transaction.atomic
def create_class(*, name: str, actor: str, **values: Any) -> ServiceClass:
    try:
        with transaction.atomic():
            made = ServiceClass.objects.create(name=name, **values)
    except IntegrityError as error:
        raise Conflict(f"A service class named {name!r} exists", field="name", code="name_taken") from error
    record(actor=actor, action="class.create", obj=made, after={"name": name, **values})
    raise_version()
    return made


@transaction.atomic
def change_class(*, service_class: ServiceClass, actor: str, **values: Any) -> ServiceClass:
    """Applies to every contract of the class, to requests that arrive from now on."""
    service_class = ServiceClass.objects.select_for_update().get(id=service_class.id)
    before, after = changes(service_class, values)
    if after:
        for field, value in after.items():
            setattr(service_class, field, value)
        service_class.save(update_fields=list(after))
        record(actor=actor, action="class.change", obj=service_class, before=before, after=after)
        raise_version()
    return service_class


@transaction.atomic
def grant_contract(
    *, tenant: Tenant, deployment: Deployment, service_class: ServiceClass, actor: str, **limits: Any
) -> Contract:
    """``limits``: requests_per_min, tokens_per_min, max_concurrency, weight. One open contract a deployment."""
    _check_limits(limits)
    _check_name_is_free(tenant, deployment)
    try:
        with transaction.atomic():
            contract = Contract.objects.create(
                tenant=tenant, deployment=deployment, service_class=service_class, **limits
            )
    except IntegrityError as error:
        raise Conflict(
            f"{tenant.name} has a contract on {deployment.name!r}; change that one", field="deployment"
        ) from error
    after = {"tenant": tenant.id, "deployment": deployment.id, "service_class": service_class.name, **limits}
    record(actor=actor, action="contract.grant", obj=contract, after=after)
    changed("deployment", deployment.id, tenant.id)
    raise_version()
    return contract


@transaction.atomic
def change_contract(*, contract: Contract, actor: str, **values: Any) -> Contract:
    """Closes this version and opens the next, a row of its own: usage keeps the version it met.

    ``values``: service_class and the limits of ``grant_contract``. Raises ``Conflict`` for a version that is closed.
    """
    _check_limits({name: value for name, value in values.items() if name != "service_class"})
    old = _lock_open(contract)
    before, after = changes(old, values)
    if not after:
        return old
    old.valid_until = timezone.now()
    old.save(update_fields=["valid_until"])
    kept = {name: getattr(old, name) for name in ("service_class", *LIMITS)}
    new = Contract.objects.create(
        tenant_id=old.tenant_id, deployment_id=old.deployment_id, version=old.version + 1, **{**kept, **after}
    )
    record(actor=actor, action="contract.change", obj=new, before=before, after=after)
    changed("deployment", old.deployment_id, old.tenant_id)
    raise_version()
    return new


@transaction.atomic
def end_contract(*, contract: Contract, actor: str) -> Contract:
    old = _lock_open(contract)
    old.valid_until = timezone.now()
    old.save(update_fields=["valid_until"])
    record(actor=actor, action="contract.end", obj=old, after={"valid_until": old.valid_until})
    changed("deployment", old.deployment_id, old.tenant_id)
    raise_version()
    return old


def _lock_open(contract: Contract) -> Contract:
    rows = Contract.objects.for_tenant(contract.tenant_id).select_for_update(of=("self",))
    old: Contract = rows.select_related("service_class").get(id=contract.id)
    if old.valid_until is not None:
        raise Conflict(f"Version {old.version} of this contract ended at {old.valid_until.isoformat()}")
    return old


def _check_limits(limits: dict[str, Any]) -> None:
    for name, value in limits.items():
        if name not in LIMITS:
            raise Invalid(f"{name!r} is not a limit: expected one of {', '.join(LIMITS)}", field=name)
        if value is not None and value < 1:
            raise Invalid(f"{value}: at least 1, or empty for no limit", field=name)


def _check_name_is_free(tenant: Tenant, deployment: Deployment) -> None:
    """``model`` in /v1 must mean one thing to a tenant."""
    same_name = deployment.tenant_id != tenant.id and (
        Deployment.objects.for_tenant(tenant.id).filter(name=deployment.name).exists()
    )
    contracts = Contract.objects.for_tenant(tenant.id).filter(valid_until=None, deployment__name=deployment.name)
    if same_name or contracts.exclude(deployment=deployment).exists():
        raise Conflict(f"{tenant.name} already has a model named {deployment.name!r}", field="deployment")
