"""Celery's side of decisions: they are kept for as long as an operator says."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from berth.decisions.services import forget_decisions
from berth.options.selectors import get


@shared_task(name="berth.decisions.tasks.forget")
def forget() -> None:
    forget_decisions(before=timezone.now() - timedelta(days=get("decisions_retention_days")))
