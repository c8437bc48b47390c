"""Celery's side of registration."""

from __future__ import annotations

from celery import shared_task

from berth.catalog.models import Model, ModelState
from berth.catalog.registration import run


@shared_task(name="berth.catalog.tasks.register")
def register(model_id: str) -> None:
    """Idempotent: a model that is ready or failed is left alone, one that another worker registers too."""
    run(model_id, patience_s=2.0)


@shared_task(name="berth.catalog.tasks.resume")
def resume() -> None:
    """Registrations whose message was lost, or whose worker died: the lease says which are being worked at."""
    for model_id in Model.objects.filter(state=ModelState.REGISTERING).order_by("id").values_list("id", flat=True):
        run(model_id)
