"""The version of what gateways hold: raised after each commit that changes it, and announced on Redis."""

from __future__ import annotations

import logging

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import F

from berth.core.models import ConfigVersion
from berth.live.names import CONFIG_CHANNEL

log = logging.getLogger(__name__)


def raise_version() -> None:
    """Call inside the transaction. The announcement may be lost: gateways also poll the version each second.

    The row is updated after the commit, in a statement of its own: inside, every change would queue on it.
    """
    transaction.on_commit(_raise)


def _raise() -> None:
    if not ConfigVersion.objects.filter(id=1).update(version=F("version") + 1):
        ConfigVersion.objects.get_or_create(id=1, defaults={"version": 1})
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1) as client:
            client.publish(CONFIG_CHANNEL, "changed")
    except redis.RedisError as error:
        log.warning("config_not_announced", extra={"error": str(error)})


def current_version() -> int:
    row = ConfigVersion.objects.filter(id=1).values_list("version", flat=True).first()
    return row or 0
