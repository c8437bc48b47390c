"""Writes of models. The work of a registration is in ``catalog.registration``; Celery runs it."""

from __future__ import annotations

from functools import partial

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from berth.audit.services import record
from berth.catalog import download
from berth.catalog.files import remove
from berth.catalog.models import Model, ModelState, Phase, SourceKind
from berth.catalog.registration import run
from berth.catalog.sources import check_source
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed, enqueue
from berth.core.version import raise_version
from berth.tenants.models import Tenant

# Registrations of one tenant at a time.
MOST_AT_ONCE = 3


def register_model(*, name: str, source_kind: str, source: str, actor: str, tenant: Tenant | None = None) -> Model:
    """Checks name and source, then returns a row in state registering; ``catalog.tasks.register`` does the rest.

    ``tenant`` None: the platform's, for everyone. A tenant's own come from a hub only.
    """
    with transaction.atomic():
        model = _create(name, source_kind, source, actor, tenant)
        enqueue("berth.catalog.tasks.register", model.id)
    return model


def register_model_now(*, name: str, source_kind: str, source: str, actor: str) -> Model:
    """The same, and waits. Returns the row, ready or failed; the reason says why."""
    with transaction.atomic():
        model = _create(name, source_kind, source, actor, None)
    run(model.id)
    model.refresh_from_db()
    return model


@transaction.atomic
def cancel_model(*, model: Model, actor: str) -> Model:
    """Stops a registration: whoever works at it sees it within a second and removes what it had. Idempotent."""
    row = Model.objects.select_for_update().get(id=model.id)
    if row.state == ModelState.CANCELLED:
        return row
    if row.state != ModelState.REGISTERING:
        raise Conflict(f"{row.name} is {row.state}: there is nothing to cancel", code="not_registering")
    row.state, row.reason, row.bytes_per_s = ModelState.CANCELLED, f"Cancelled by {actor}", 0.0
    row.save(update_fields=["state", "reason", "bytes_per_s", "updated_at"])
    record(actor=actor, action="model.cancel", obj=row, after={"phase": row.phase, "bytes_done": row.bytes_done})
    changed("model", row.id, row.tenant_id or "")
    transaction.on_commit(partial(download.forget, row.id))
    return row


@transaction.atomic
def retry_model(*, model: Model, actor: str) -> Model:
    """Once more from the same source; a download that broke off goes on where it was."""
    row = Model.objects.select_for_update().get(id=model.id)
    if row.state not in (ModelState.FAILED, ModelState.CANCELLED):
        raise Conflict(f"{row.name} is {row.state}: there is nothing to retry", code="not_failed")
    check_source(row.source_kind, row.source)
    before = {"state": row.state, "reason": row.reason}
    row.state, row.reason, row.phase, row.progress = ModelState.REGISTERING, "", Phase.QUEUED, 0.0
    row.bytes_done, row.bytes_total, row.bytes_per_s, row.started_at = 0, 0, 0.0, None
    row.requested_by = actor
    row.save()
    record(actor=actor, action="model.retry", obj=row, before=before)
    changed("model", row.id, row.tenant_id or "")
    enqueue("berth.catalog.tasks.register", row.id)
    return row


@transaction.atomic
def delete_model(*, model: Model, actor: str) -> None:
    """A model that nothing deploys, with its files unless another model shares them. Also frees a failed one's name."""
    row = Model.objects.select_for_update().get(id=model.id)
    if row.state == ModelState.REGISTERING:
        raise Conflict(f"{row.name} is being registered; cancel that first", code="registering")
    try:
        with transaction.atomic():
            record(actor=actor, action="model.delete", obj=row, before={"name": row.name, "digest": row.digest})
            changed("model", row.id, row.tenant_id or "")
            row.delete()
    except ProtectedError as error:
        raise Conflict(f"{row.name} is deployed; delete its deployments first", code="in_use") from error
    transaction.on_commit(partial(download.forget, model.id))
    if row.digest and not Model.objects.filter(digest=row.digest).exists():
        transaction.on_commit(partial(remove, row.digest))
    raise_version()


def _create(name: str, source_kind: str, source: str, actor: str, tenant: Tenant | None) -> Model:
    try:
        validate_slug(name)
    except ValidationError as error:
        raise Invalid(f"{name!r}: letters, digits, hyphens and underscores only", field="name") from error
    if source_kind not in SourceKind.values:
        expected = ", ".join(SourceKind.values)
        raise Invalid(f"{source_kind!r}: expected one of {expected}", field="source_kind")
    if tenant is not None:
        _check_tenants_own(tenant, name, source_kind)
    check_source(source_kind, source)
    try:
        with transaction.atomic():
            model = Model.objects.create(
                name=name, source_kind=source_kind, source=source, tenant=tenant, requested_by=actor
            )
    except IntegrityError as error:
        raise _taken(name) from error
    after = {"name": name, "source_kind": source_kind, "source": source}
    record(actor=actor, action="model.register", obj=model, after=after)
    changed("model", model.id, model.tenant_id or "")
    return model


def _check_tenants_own(tenant: Tenant, name: str, source_kind: str) -> None:
    if source_kind != SourceKind.HUB:
        raise Invalid("Tenants register models of the hub; files and packages are the operators'", field="source_kind")
    if Model.objects.filter(tenant=None, name=name).exists():
        raise _taken(name)
    under_way = Model.objects.filter(tenant=tenant, state=ModelState.REGISTERING).count()
    if under_way >= MOST_AT_ONCE:
        raise Conflict(f"{under_way} of {tenant.name}'s models are being registered; wait for one", code="too_many")


def _taken(name: str) -> Conflict:
    return Conflict(f"A model named {name!r} exists", field="name", code="name_taken")
