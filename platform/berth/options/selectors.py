"""Reads of options: from memory, renewed every few seconds, so that asking costs nothing."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from django.db import DatabaseError, InterfaceError
from psycopg_pool import PoolTimeout

from berth.core.errors import Invalid
from berth.options.models import OptionValue
from berth.options.registry import REGISTRY, option

log = logging.getLogger(__name__)

FRESH_S = 5.0


class _Memory:
    """The overrides of one process. A change made elsewhere is seen within ``FRESH_S``, one made here at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self._values: dict[str, Any] = {}
        self._until = 0.0

    def values(self) -> dict[str, Any]:
        if time.monotonic() >= self._until and self._lock.acquire(blocking=False):
            try:
                self._values = _valid(dict(OptionValue.objects.values_list("key", "value")))
                self._until = time.monotonic() + FRESH_S
            except (DatabaseError, InterfaceError, PoolTimeout) as error:
                log.warning("options_not_read", extra={"error": str(error)})
                self._until = time.monotonic() + FRESH_S  # the last known hold
            finally:
                self._lock.release()
        return self._values


MEMORY = _Memory()


def get(key: str) -> Any:
    """The option's value in force. Raises ``KeyError`` for one that is not registered. Not for an event loop."""
    default = option(key).default
    return MEMORY.values().get(key, default)


def overrides() -> dict[str, OptionValue]:
    """What is set, by key, from the database."""
    return {row.key: row for row in OptionValue.objects.all()}


def _valid(stored: dict[str, Any]) -> dict[str, Any]:
    """Without what an older or newer version allowed and this one does not."""
    found = {}
    for key, value in stored.items():
        try:
            found[key] = REGISTRY[key].checked(value)
        except (KeyError, Invalid):
            log.warning("option_not_usable", extra={"option": key})
    return found
