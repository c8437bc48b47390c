"""What the terminal shows: asked for in a thread of its own, so that a slow database never holds up the supervision."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from berth.embedded.house import House

POLL_S = 1.0
EAGER_POLL_S = 0.2


@dataclass(frozen=True)
class ReplicaLine:
    id: str
    deployment: str
    state: str
    reason: str


@dataclass(frozen=True)
class ModelLine:
    """A registration that is not done: ``progress`` runs from 0 to 1."""

    name: str
    state: str
    reason: str
    progress: float


@dataclass(frozen=True)
class View:
    """One look. ``waiting``: the name of ``demo`` while it should run and has no ready replica."""

    demo: str | None = None
    answers: bool = False
    reachable: bool = False
    replicas: tuple[ReplicaLine, ...] = ()
    models: tuple[ModelLine, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        return self.answers and self.reachable and self.demo is not None and not self.waiting


class Poller:
    """``view`` is the latest look. ``demo``: the id of the deployment that "ready" waits for, "" for none."""

    def __init__(self, house: House) -> None:
        self.view = View()
        self.demo: str | None = None
        self.eager = True
        self._house = house
        self._since = datetime.now(UTC)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.wait(EAGER_POLL_S if self.eager else POLL_S):
            self.view = self._look()

    def _look(self) -> View:
        answers, demo = answers_ready(self._house.local_address), self.demo
        try:
            replicas, models, waiting = read_rows(demo or "", self._since)
        except Exception:  # whatever a database that is gone raises: the screen says so and goes on
            return View(demo, answers, replicas=self.view.replicas, models=self.view.models)
        return View(demo, answers, True, replicas, models, waiting)


def answers_ready(address: str, timeout_s: float = 2.0) -> bool:
    """Whether web says that it, its database and its Redis answer."""
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def read_rows(demo: str, since: datetime) -> tuple[tuple[ReplicaLine, ...], tuple[ModelLine, ...], tuple[str, ...]]:
    """Live replicas, unfinished registrations, and whether ``demo`` (a deployment's id) still waits for a replica.

    What was last observed before ``since``, the begin of this run, is shown as "checking": it is the last run's.
    """
    from django.db import connection

    from berth.catalog.models import Model, ModelState
    from berth.deployments.models import Deployment, DesiredState, Replica, ReplicaState
    from berth.deployments.selectors import annotate_live

    try:
        live = Replica.objects.for_platform().filter(ended_at__isnull=True).select_related("deployment")
        rows = list(live.order_by("created_at"))
        annotate_live(rows)
        replicas = tuple(_line(row, since) for row in rows)
        unfinished = Model.objects.exclude(state=ModelState.READY).order_by("created_at")
        models = tuple(ModelLine(row.name, row.state, row.reason, row.progress) for row in unfinished)
        wanted = Deployment.objects.for_platform().filter(id=demo, desired_state=DesiredState.RUNNING)
        names = tuple(name for name in wanted.filter(replica_count__gt=0).values_list("name", flat=True))
        served = {line.deployment for line in replicas if line.state == ReplicaState.READY}
        return replicas, models, tuple(name for name in names if name not in served)
    finally:
        connection.close()


def _line(row: Any, since: datetime) -> ReplicaLine:
    """``row``: a Replica that ``annotate_live`` saw. Its port is 0 while its agent finds no live process."""
    observed = row.observed_at is not None and row.observed_at >= since
    if (row.port and not observed) or (row.shown_state == "ready" and not row.port):
        return ReplicaLine(row.id, row.deployment.name, "checking", "its agent has not confirmed it yet")
    return ReplicaLine(row.id, row.deployment.name, str(row.shown_state), row.shown_reason)
