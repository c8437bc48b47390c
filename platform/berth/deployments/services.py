"""Writes of deployments. Replicas are in ``deployments.replicas`` and re-exported here."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.utils import timezone

from berth.audit.services import changes, record
from berth.catalog.models import Model
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed, nudge_scheduler
from berth.core.version import raise_version
from berth.deployments.checks import check_quota, check_settings
from berth.deployments.models import Deployment, DesiredState, Replica
from berth.deployments.replicas import create_replica, drain_replica, end_replica, observe_replicas
from berth.slas.models import Contract, ServiceClass
from berth.slas.selectors import lasts_beyond
from berth.slas.services import follow_deployment, grant_contract
from berth.tenants.models import Tenant

__all__ = [
    "change_class",
    "change_deployment",
    "clone_deployment",
    "create_deployment",
    "create_replica",
    "delete_deployment",
    "drain_replica",
    "end_replica",
    "observe_replicas",
    "scale_deployment",
    "start_deployment",
    "stop_deployment",
]

# What a runtime is started with; a change needs another process.
RUNTIME_FIELDS = ("model", "engine", "dtype", "max_model_len", "max_num_seqs", "kv_bytes", "kv_dtype")
LIVE_FIELDS = ("service_class", "replica_count", "default_max_tokens")


@transaction.atomic
def create_deployment(
    *, tenant: Tenant, name: str, model: Model, service_class: ServiceClass, actor: str, **settings: Any
) -> Deployment:
    """A deployment and its owner's contract on it. ``settings``: the other fields of ``Deployment``."""
    deployment = Deployment(tenant=tenant, name=name, model=model, service_class=service_class, **settings)
    _check_name(deployment)
    check_settings(deployment)
    check_quota(deployment)
    try:
        with transaction.atomic():
            deployment.save()
    except IntegrityError as error:
        raise Conflict(f"{tenant.name} has a deployment named {name!r}", field="name", code="name_taken") from error
    grant_contract(tenant=tenant, deployment=deployment, service_class=service_class, actor=actor)
    after = {"name": name, "model": model.name, "service_class": service_class.name, **settings}
    record(actor=actor, action="deployment.create", obj=deployment, after=after)
    _announce(deployment)
    return deployment


@transaction.atomic
def change_deployment(*, deployment: Deployment, actor: str, **values: Any) -> Deployment:
    """Fields of a runtime change only while nothing runs; class, replicas and default_max_tokens at any time.

    A new class also opens a new version of the owner's contract.
    """
    row = _lock(deployment)
    before, after = changes(row, values)
    unknown = set(values) - {*RUNTIME_FIELDS, *LIVE_FIELDS}
    if unknown:
        field = min(unknown)
        raise Invalid(f"{field!r} cannot be changed", field=field)
    for_runtime = [name for name in after if name in RUNTIME_FIELDS]
    if for_runtime and (row.desired_state == DesiredState.RUNNING or _live(row).exists()):
        raise Conflict(
            f"{', '.join(for_runtime)}: stop the deployment first; its replicas run with the present value",
            field=for_runtime[0],
            code="running",
        )
    if not after:
        return row
    for field, value in after.items():
        setattr(row, field, value)
    check_settings(row)
    check_quota(row)
    row.save()
    if "service_class" in after:
        follow_deployment(deployment=row, former=before["service_class"], actor=actor)
    record(actor=actor, action="deployment.change", obj=row, before=before, after=after)
    _announce(row)
    return row


def change_class(*, deployment: Deployment, service_class: ServiceClass, actor: str) -> Deployment:
    """Another service level from now on, without touching a replica: a new version of the owner's contract."""
    return change_deployment(deployment=deployment, actor=actor, service_class=service_class)


def scale_deployment(*, deployment: Deployment, replicas: int, actor: str) -> Deployment:
    return change_deployment(deployment=deployment, actor=actor, replica_count=replicas)


def start_deployment(*, deployment: Deployment, actor: str) -> Deployment:
    return _set_desired(deployment, DesiredState.RUNNING, actor)


def stop_deployment(*, deployment: Deployment, actor: str) -> Deployment:
    """Its replicas finish what they run, then end."""
    return _set_desired(deployment, DesiredState.STOPPED, actor)


@transaction.atomic
def delete_deployment(*, deployment: Deployment, actor: str) -> None:
    """Only a stopped one without a live replica. Its usage stays."""
    row = _lock(deployment)
    live = _live(row).count()
    if row.desired_state == DesiredState.RUNNING:
        raise Conflict("Stop the deployment first", code="running")
    if live:
        raise Conflict(f"{live} of its replicas are still ending; try again in a moment", code="running")
    record(actor=actor, action="deployment.delete", obj=row, before={"name": row.name})
    changed("deployment", row.id, row.tenant_id)
    row.delete()
    raise_version()


def clone_deployment(*, deployment: Deployment, name: str, actor: str) -> Deployment:
    """The same settings under another name, running."""
    same = (*RUNTIME_FIELDS, *LIVE_FIELDS)
    return create_deployment(
        tenant=deployment.tenant, name=name, actor=actor, **{field: getattr(deployment, field) for field in same}
    )


@transaction.atomic
def _set_desired(deployment: Deployment, state: DesiredState, actor: str) -> Deployment:
    row = _lock(deployment)
    if row.desired_state != state:
        before, row.desired_state = row.desired_state, state
        check_quota(row)
        row.save(update_fields=["desired_state", "updated_at"])
        action = "deployment.start" if state == DesiredState.RUNNING else "deployment.stop"
        record(actor=actor, action=action, obj=row, before={"desired_state": before}, after={"desired_state": state})
        _announce(row)
    return row


def _lock(deployment: Deployment) -> Deployment:
    rows = Deployment.objects.for_tenant(deployment.tenant_id).select_for_update(of=("self",))
    row: Deployment = rows.select_related("model", "service_class", "tenant").get(id=deployment.id)
    return row


def _live(deployment: Deployment) -> Any:
    return Replica.objects.for_tenant(deployment.tenant_id).filter(deployment=deployment, ended_at=None)


def _check_name(deployment: Deployment) -> None:
    try:
        validate_slug(deployment.name)
    except ValidationError as error:
        message = f"{deployment.name!r}: letters, digits, hyphens and underscores only"
        raise Invalid(message, field="name") from error
    if len(deployment.name) > 63:
        raise Invalid("At most 63 characters", field="name")
    contracts = Contract.objects.for_tenant(deployment.tenant_id).filter(lasts_beyond(timezone.now()))
    if contracts.filter(deployment__name=deployment.name).exists():
        raise Conflict(
            f"{deployment.tenant.name} already has a model named {deployment.name!r}", field="name", code="name_taken"
        )


def _announce(deployment: Deployment) -> None:
    changed("deployment", deployment.id, deployment.tenant_id)
    nudge_scheduler()
    raise_version()
