"""Writes of models. The work of a registration is in ``catalog.registration``; Celery runs it."""

from __future__ import annotations

from functools import partial

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from berth.audit.services import record
from berth.catalog.files import remove
from berth.catalog.models import Model, ModelState, SourceKind
from berth.catalog.registration import run
from berth.catalog.sources import check_source
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed, enqueue
from berth.core.version import raise_version


def register_model(*, name: str, source_kind: str, source: str, actor: str) -> Model:
    """Checks name and source, then returns a row in state registering; ``catalog.tasks.register`` does the rest."""
    with transaction.atomic():
        model = _create(name, source_kind, source, actor)
        enqueue("berth.catalog.tasks.register", model.id)
    return model


def register_model_now(*, name: str, source_kind: str, source: str, actor: str) -> Model:
    """The same, and waits. Returns the row, ready or failed; the reason says why."""
    with transaction.atomic():
        model = _create(name, source_kind, source, actor)
    run(model.id)
    model.refresh_from_db()
    return model


@transaction.atomic
def delete_model(*, model: Model, actor: str) -> None:
    """A model that nothing deploys, with its files unless another model shares them. Also frees a failed one's name."""
    row = Model.objects.select_for_update().get(id=model.id)
    if row.state == ModelState.REGISTERING:
        raise Conflict(f"{row.name} is being registered; wait until that has ended")
    try:
        with transaction.atomic():
            record(actor=actor, action="model.delete", obj=row, before={"name": row.name, "digest": row.digest})
            changed("model", row.id)
            row.delete()
    except ProtectedError as error:
        raise Conflict(f"{row.name} is deployed; delete its deployments first", code="in_use") from error
    if row.digest and not Model.objects.filter(digest=row.digest).exists():
        transaction.on_commit(partial(remove, row.digest))
    raise_version()


def _create(name: str, source_kind: str, source: str, actor: str) -> Model:
    try:
        validate_slug(name)
    except ValidationError as error:
        raise Invalid(f"{name!r}: letters, digits, hyphens and underscores only", field="name") from error
    if source_kind not in SourceKind.values:
        expected = ", ".join(SourceKind.values)
        raise Invalid(f"{source_kind!r}: expected one of {expected}", field="source_kind")
    check_source(source_kind, source)
    try:
        with transaction.atomic():
            model = Model.objects.create(name=name, source_kind=source_kind, source=source)
    except IntegrityError as error:
        raise Conflict(f"A model named {name!r} exists", field="name", code="name_taken") from error
    record(actor=actor, action="model.register", obj=model, after={"name": name, "source": source})
    changed("model", model.id)
    return model
