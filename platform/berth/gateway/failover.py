"""Which door is asked next when one refuses, breaks or stops, and what becomes of the answer that it had begun.

nothing is with the client, or nothing was marked    -> the next door begins anew
the door marked its tokens (``gpuruntime.marks``)    -> the next door goes on: what is marked is with the client
what is with the client was not marked               -> the answer ends with an error
"""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.gateway.errors import ApiError, PassedError
from berth.gateway.forward import DoorLost, DoorRefused
from berth.gateway.replicas import Replicas
from berth.gateway.snapshot import Replica, Route

MOST_RESUMES = 3  # a request that breaks whatever runs it ends with the fourth door
DOOR_FULL = frozenset({"queue_full", "predicted_late"})
DOOR_COUNTS = frozenset({"queue_timeout", "engine_failed", "replica_stopped"})
DOOR_CLOSED = frozenset({"draining", "loading", "not_ready", "replica_stopped", "failed"})
DOOR_BROKE = frozenset({"engine_failed", "replica_stopped"})  # in the middle of an answer


class DoorBroke(Exception):
    """The door itself said that it cannot end the answer; ``error`` is what it said."""

    def __init__(self, error: PassedError) -> None:
        super().__init__(error.code)
        self.error = error


@dataclass(slots=True)
class Trail:
    """The doors that were asked for one request. ``tries``: how often one was; ``broken``: those that broke it off."""

    replicas: Replicas
    route: Route
    affinity: bytes
    tries: int = 0
    broken: set[str] = field(default_factory=set)
    _tried: set[str] = field(default_factory=set)
    _last: ApiError | None = None

    def asks(self, replica: Replica) -> None:
        self.tries += 1
        self._tried.add(replica.id)

    def broke(self, replica: Replica, error: Exception, *, resumes: bool) -> None:
        """Its answer goes on elsewhere, also where a door had been full before; or it begins anew."""
        self.broken.add(replica.id)
        if not isinstance(error, DoorBroke) or error.error.code in DOOR_CLOSED:
            self.replicas.eject(replica)
        if resumes:
            self._tried = set(self.broken)
            self._last = broken_off(error)

    def refused(self, replica: Replica, refusal: DoorRefused, *, resumes: bool) -> None:
        """A full door is followed by one other; one that cannot go on with an answer by any. Raises ``ApiError``."""
        if refusal.code in DOOR_CLOSED:
            self.replicas.eject(replica)
        if resumes:  # whatever the reason: the client has lost its answer, if no other door takes it
            return
        known = refused(refusal)
        again = refusal.status in (429, 503) and refusal.code in DOOR_FULL | DOOR_CLOSED
        if not again or (self._last is not None and refusal.code in DOOR_FULL):
            raise known from refusal
        self._last = known

    def next(self) -> Replica | None:
        return self.replicas.choose(self.route, self.affinity, self._tried)

    def ended(self, *, reached: bool) -> ApiError:
        """Why no door is left."""
        if self._last is not None:
            return self._last
        if self._tried and reached:
            return ApiError(503, "The replica that ran this request was lost.", code="replica_lost", retry_after_s=1)
        text = f"No replica of '{self.route.model}' is ready."
        return ApiError(503, f"{text} Try again shortly.", code="no_ready_replica", retry_after_s=2)


def broken_off(error: Exception) -> ApiError:
    """What a client is told whose answer cannot go on."""
    if isinstance(error, DoorBroke):
        return error.error
    return ApiError(502, "The replica that ran this request was lost.", code="replica_lost")


def never_reached(error: Exception) -> bool:
    return isinstance(error, DoorLost) and not error.connected


def refused(refusal: DoorRefused) -> ApiError:
    headers = [(b"retry-after", refusal.retry_after or b"1")] if refusal.status in (429, 503) else []
    if refusal.status == 429:
        headers.append((b"x-should-retry", b"true"))
    if refusal.status in (400, 413, 429, 503) and refusal.body:
        return PassedError(refusal.status, refusal.body, refusal.code, headers)
    status = 503 if refusal.status == 503 else 500
    text = f"The replica answered {refusal.status}."
    return ApiError(status, text, code=refusal.code or "replica_failed", headers=headers)
