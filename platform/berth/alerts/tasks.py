"""Celery's way in: conditions every 15 s, messages when there are some and every 10 s."""

from __future__ import annotations

import secrets

from celery import shared_task
from django.utils import timezone

from berth.alerts import rules, selectors, services
from berth.alerts.delivery import deliver as send
from berth.alerts.thresholds import thresholds
from berth.core import leases

EVALUATE_LEASE_S = 30.0
DELIVER_LEASE_S = 60.0
AT_ONCE = 20
RETENTION_EVERY_S = 3600.0


@shared_task(name="berth.alerts.tasks.evaluate")
def evaluate() -> None:
    with leases.hold("alerts", EVALUATE_LEASE_S) as mine:
        if mine:
            now = timezone.now()
            services.take_conditions(conditions=rules.evaluate(now, thresholds()), now=now)
    if leases.take("alert_retention", secrets.token_hex(8), RETENTION_EVERY_S):
        services.forget_old(now=timezone.now())


@shared_task(name="berth.alerts.tasks.deliver")
def deliver() -> None:
    """What is due, a few at a time: a message is sent twice only where a worker died between sending and noting."""
    with leases.hold("alert_deliveries", DELIVER_LEASE_S) as mine:
        if mine:
            send(list(selectors.due(timezone.now())[:AT_ONCE]))
