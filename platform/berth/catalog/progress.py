"""How far a registration is: told to its row and to open consoles twice a second, and asked whether to go on."""

from __future__ import annotations

import time
from collections import deque

from berth.catalog.models import Model, ModelState, Phase
from berth.core import leases
from berth.core.notify import changed

EVERY_S = 0.5
# The rate is that of the last seconds: what one sees agrees with what is left.
RATE_OVER_S = 5.0
# Renewed with each report, so it runs out soon after a worker died.
LEASE_S = 30


class Cancelled(Exception):
    """Somebody wants no more of it, or another worker has it: leave nothing behind and say nothing."""


class Progress:
    """``enter`` a phase, then call with the bytes done of it."""

    def __init__(self, model: Model, names: tuple[str, ...], holder: str) -> None:
        self._model, self._leases, self._holder = model, names, holder
        self._last = 0.0
        self._phase, self._span, self._total = str(Phase.QUEUED), (0.0, 0.0), 0
        self._seen: deque[tuple[float, int]] = deque()

    def enter(self, phase: Phase, low: float, high: float, total_bytes: int = 0) -> None:
        """``low`` to ``high``: what this phase is of the whole. ``total_bytes`` 0: not known."""
        self._phase, self._span, self._total = str(phase), (low, high), total_bytes
        self._seen.clear()
        self._report(0, None)

    def __call__(self, done_bytes: int, share: float | None = None) -> None:
        """Raises ``Cancelled``. ``share`` of the phase, where bytes do not say it."""
        if time.monotonic() - self._last >= EVERY_S:
            self._report(done_bytes, share)

    def _report(self, done: int, share: float | None) -> None:
        self._last = now = time.monotonic()
        if share is None:
            share = done / self._total if self._total else 0.0
        low, high = self._span
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_OVER_S:
            self._seen.popleft()
        first_at, first_done = self._seen[0]
        rate = (done - first_done) / (now - first_at) if now - first_at > 0.2 else 0.0
        mine = sum(leases.take(name, self._holder, LEASE_S) for name in self._leases) == len(self._leases)
        still = Model.objects.filter(id=self._model.id, state=ModelState.REGISTERING).update(
            phase=self._phase,
            progress=round(min(low + (high - low) * min(1.0, share), 0.99), 4),
            bytes_done=min(done, self._total) if self._total else done,
            bytes_total=self._total,
            bytes_per_s=max(0.0, rate),
        )
        if not mine or not still:
            raise Cancelled
        changed("model", self._model.id, self._model.tenant_id or "")
