"""Celery's side of what the platform does for itself."""

from __future__ import annotations

from celery import shared_task

from berth.core import leases
from berth.management.retention import BUDGET_S, sweep


@shared_task(name="berth.management.tasks.sweep_old")
def sweep_old() -> None:
    with leases.hold("sweep_old", BUDGET_S + 60) as mine:
        if mine:
            sweep()
