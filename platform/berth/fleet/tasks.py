"""Celery's side of the fleet: devices' history, and how fast they are."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from berth.core import leases
from berth.fleet import history, speeds
from berth.options.selectors import get


@shared_task(name="berth.fleet.tasks.sample_devices")
def sample_devices() -> None:
    """Every ten seconds. May be lost: a minute then has a sample less."""
    with leases.hold("sample_devices", 8) as mine:
        if mine:
            history.sample(timezone.now())


@shared_task(name="berth.fleet.tasks.forget_history")
def forget_history() -> None:
    history.forget(timezone.now() - timedelta(hours=get("device_history_hours")))


@shared_task(name="berth.fleet.tasks.judge_speeds")
def judge_speeds() -> None:
    """Every minute. May be lost: a GPU is then called slow a minute later."""
    with leases.hold("judge_speeds", 55) as mine:
        if mine:
            speeds.judge_speeds(timezone.now())
