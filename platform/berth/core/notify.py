"""Telling the rest of the platform that something changed. Each acts after the commit; each may be lost.

The receivers poll as well (reconcile every 2 s, agents every 5 s, consoles on reconnect): a message saves time only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from berth.core.logs import current_request_id
from berth.live import names

log = logging.getLogger(__name__)

# A message's header: the id of the request that asked for the task, for its log lines.
REQUEST_HEADER = "berth_request_id"


def nudge_scheduler() -> None:
    """Reconcile now rather than at the next tick."""
    enqueue("scheduler.tasks.reconcile", expires=2)


def desired_changed(node_id: str) -> None:
    """The node's desired state is another: its agent gets it now."""
    message = {"type": "desired.changed"}
    transaction.on_commit(partial(_send, names.node_group(node_id), message), robust=True)


def session_ended(session_id: str) -> None:
    """The consoles of that session close now; without this they look every two seconds."""
    message = {"type": "session.ended"}
    transaction.on_commit(partial(_send, names.session_group(session_id), message), robust=True)


def changed(what: str, object_id: str, tenant_id: str = "") -> None:
    """Open consoles refetch ``what``: one of ``Changed`` in the console's ``live/types.ts``."""
    data = {"type": "changed", "what": what, "id": object_id}
    groups = [names.PLATFORM_GROUP, *([names.console_group(tenant_id)] if tenant_id else [])]
    for group in groups:
        transaction.on_commit(partial(_send, group, {"type": "console.message", "data": data}), robust=True)


def enqueue(task: str, *args: str, expires: float | None = None) -> None:
    """A Celery message after the commit. Lost with a warning when the broker is gone."""
    transaction.on_commit(partial(_enqueue, task, args, expires), robust=True)


def _enqueue(task: str, args: tuple[str, ...], expires: float | None) -> None:
    from berth.celery import app

    request_id = current_request_id()

    def send() -> None:
        # kombu tries for six seconds to connect, whatever it is told; a person waits for this request.
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
            client.ping()
        asked_by = {REQUEST_HEADER: request_id} if request_id else None
        app.send_task(task, args=args, expires=expires, retry=False, headers=asked_by)

    _quietly(task, send)


def _send(group: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        _quietly(group, partial(async_to_sync(layer.group_send), group, message))


def _quietly(to: str, send: Callable[[], object]) -> None:
    try:
        send()
    except Exception as error:  # the broker's and the layer's errors share no base; none may undo a commit
        log.warning("notification_lost", extra={"to": to, "error": f"{type(error).__name__}: {error}"})
