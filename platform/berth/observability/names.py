"""What ids are called, asked of the database at most every few seconds."""

from __future__ import annotations

import threading
import time

from berth.deployments.models import Deployment
from berth.observability.goodput import Names
from berth.tenants.models import Tenant

FRESH_S = 5.0


class NameBook:
    """``current`` is empty before the first ``refresh``; where one fails, the answer before it holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names = Names()
        self._until = 0.0

    def refresh(self) -> None:
        """Raises ``DatabaseError``."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._names = Names(
                    tenants=dict(Tenant.objects.values_list("id", "slug")),
                    deployments=dict(Deployment.objects.for_platform().values_list("id", "name")),
                )
                self._until = time.monotonic() + FRESH_S

    def current(self) -> Names:
        return self._names
