"""Celery's side of registration."""

from __future__ import annotations

from celery import shared_task

from berth.catalog.registration import run


@shared_task(name="berth.catalog.tasks.register")
def register(model_id: str) -> None:
    """Idempotent: a model that is ready or failed is left alone, one that another worker registers too."""
    run(model_id)
