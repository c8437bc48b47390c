"""What the scheduler's worker counts, and its port. Celery's signals start both; nothing here knows a task's work."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

import structlog
from celery import signals
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from berth.config import CONFIG, BadConfiguration
from berth.core.notify import REQUEST_HEADER
from scheduler.metrics_port import BadAddress, MetricsPort, parse_address, render

REGISTRY = CollectorRegistry()
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)

tick_seconds = Histogram(
    "berth_scheduler_tick_seconds", "One look at the fleet and what followed.", buckets=_SECONDS, registry=REGISTRY
)
actions = Counter("berth_scheduler_actions", "Actions that were taken, by kind.", ["action"], registry=REGISTRY)
last_tick = Gauge(
    "berth_scheduler_last_tick_timestamp_seconds", "When the last look began.", registry=REGISTRY,
    multiprocess_mode="mostrecent",
)  # fmt: skip
task_seconds = Histogram("berth_task_seconds", "Background tasks.", ["task"], buckets=_SECONDS, registry=REGISTRY)
task_failures = Counter("berth_task_failures", "Background tasks that raised.", ["task"], registry=REGISTRY)
ledger_records = Counter("berth_ledger_records", "Records that the ledger booked.", registry=REGISTRY)

log = logging.getLogger(__name__)
_began: dict[str, float] = {}


@contextlib.contextmanager
def timed_tick() -> Iterator[None]:
    last_tick.set_to_current_time()
    with tick_seconds.time():
        yield


@signals.task_prerun.connect
def _begins(task_id: str = "", task: Any = None, **_: Any) -> None:
    """Log lines of a task carry its name and the id of the request that asked for it, where one did."""
    _began[task_id] = time.monotonic()
    request_id = getattr(task.request, REQUEST_HEADER, None)
    bound = {"task": task.name} | ({"request_id": str(request_id)} if request_id else {})
    structlog.contextvars.bind_contextvars(**bound)


@signals.task_postrun.connect
def _ends(task_id: str = "", task: Any = None, **_: Any) -> None:
    structlog.contextvars.unbind_contextvars("task", "request_id")
    if (began := _began.pop(task_id, None)) is not None:
        task_seconds.labels(task.name).observe(time.monotonic() - began)


@signals.task_failure.connect
def _fails(sender: Any = None, **_: Any) -> None:
    task_failures.labels(sender.name).inc()


@signals.celeryd_init.connect
def _listen(**_: Any) -> None:
    """In the worker alone, once. A port that is taken costs the metrics, not the scheduler."""
    if not CONFIG.scheduler_metrics:
        return
    try:
        address = parse_address(CONFIG.scheduler_metrics)
    except BadAddress as error:
        raise BadConfiguration(f"BERTH_SCHEDULER_METRICS: {error}") from error
    try:
        MetricsPort(address, CONFIG.metrics_token, lambda: render(REGISTRY)).start()
    except OSError as error:
        log.error("metrics_not_served", extra={"address": CONFIG.scheduler_metrics, "error": str(error)})
