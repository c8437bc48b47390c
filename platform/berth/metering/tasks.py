"""Celery's way into the ledger: every two seconds."""

from __future__ import annotations

import logging

import redis
from celery import shared_task
from django.conf import settings

from berth.core import leases
from berth.metering.hours import seal_hours
from berth.metering.ledger import post
from berth.observability.scheduler import ledger_records

LEASE_S = 8.0

log = logging.getLogger(__name__)


@shared_task(name="berth.metering.tasks.post_ledger")
def post_ledger() -> None:
    """Books what is due, then seals what has waited long enough: after the ledger was away, in this order.

    The lease only saves work: two runs at once book the same records once.
    """
    with leases.hold("ledger", LEASE_S) as mine:
        if not mine:
            return
        try:
            with redis.Redis.from_url(settings.REDIS_URL, decode_responses=True, socket_timeout=5) as client:
                booked = post(client)
        except redis.RedisError as error:
            log.warning("ledger_waits", extra={"error": str(error)})
            return
        if until := seal_hours():
            log.info("hours_sealed", extra={"until": until.isoformat()})
    ledger_records.inc(len(booked.records))
    if booked.records or booked.corrected:
        log.info("booked", extra={"records": len(booked.records), "corrected": booked.corrected})
