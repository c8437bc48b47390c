"""The platform as the database and Redis have it: replicas, queues, nodes, devices, the ledger, alerts.

Read when scraped, by the one web process that leads the aggregator, so that nothing is counted twice. What cannot be
read is left out, and ``berth_database_up`` or ``berth_redis_up`` says so.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Count, Sum
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout

from berth.alerts.models import Alert, Delivery, DeliveryState, State
from berth.catalog.models import Model
from berth.deployments.models import Deployment, DesiredState, Replica, ReplicaState
from berth.deployments.selectors import annotate_live
from berth.fleet.models import Gpu, Health, Node, Seat, SliceUnit
from berth.live import names
from berth.observability.names import NameBook
from berth.slas.models import ServiceClass

TIMEOUT_S = 1.0
OWNED = ["tenant", "deployment"]

log = logging.getLogger(__name__)


class PlatformCollector(Collector):
    """``leading``: whether this process is the one that tells."""

    def __init__(self, leading: Callable[[], bool], book: NameBook) -> None:
        self._leading = leading
        self._book = book

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        leads = self._leading()
        yield _gauge("berth_leader", "Whether this process leads the aggregator and tells of the platform.", leads)
        if not leads:
            return
        database_up = True
        try:
            self._book.refresh()
            yield from list(_database())
        except (DatabaseError, InterfaceError, PoolTimeout, OSError) as error:
            database_up = False
            log.warning("metrics_without_database", extra={"error": str(error).strip()})
        yield _gauge("berth_database_up", "Whether the database answered.", database_up)
        redis_up = True
        try:
            yield from list(_streams())
        except (redis.RedisError, OSError) as error:
            redis_up = False
            log.warning("metrics_without_redis", extra={"error": str(error)})
        yield _gauge("berth_redis_up", "Whether Redis answered.", redis_up)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


# --- the database -----------------------------------------------------------------------------------------------


def _database() -> Iterator[Metric]:
    yield from _replicas()
    yield from _nodes()
    yield from _devices()
    yield from _alerts()
    yield from _classes()
    family = GaugeMetricFamily("berth_models", "Models of the catalogue, by state.", labels=["state"])
    for state, count in Model.objects.values_list("state").annotate(Count("id")).order_by():
        family.add_metric([state], count)
    yield family


def _replicas() -> Iterator[Metric]:
    rows: list[Any] = list(Replica.objects.for_platform().filter(ended_at=None).select_related("deployment__tenant"))
    annotate_live(rows)
    deployments: list[Deployment] = list(Deployment.objects.for_platform().select_related("tenant"))
    states = {(row.tenant.slug, row.name): dict.fromkeys(ReplicaState.values[:5], 0) for row in deployments}
    queues = {key: [0.0, 0.0, 0.0, 0.0, 0.0] for key in states}
    for row in rows:
        key = (row.deployment.tenant.slug, row.deployment.name)
        count = states.setdefault(key, {})
        count[row.shown_state] = count.get(row.shown_state, 0) + 1
        stats = row.stats or {}
        sums = queues.setdefault(key, [0.0] * 5)
        sums[4] += row.restarts
        for place, name in enumerate(("running", "queued", "kv_free_blocks", "kv_total_blocks")):
            sums[place] += stats.get(name) or 0
    wanted = GaugeMetricFamily("berth_replicas_wanted", "Replicas that should run.", labels=OWNED)
    for deployment in deployments:
        running = deployment.desired_state == DesiredState.RUNNING
        wanted.add_metric([deployment.tenant.slug, deployment.name], deployment.replica_count if running else 0)
    yield wanted
    family = GaugeMetricFamily("berth_replicas", "Replicas that have not ended, by state.", labels=[*OWNED, "state"])
    for key, count in states.items():
        for state, number in count.items():
            family.add_metric([*key, state], number)
    yield family
    shown = (
        ("berth_requests_running", "Requests in the engines' batches."),
        ("berth_requests_queued", "Requests that wait at the doors."),
    )
    for place, (name, text) in enumerate(shown):
        gauge = GaugeMetricFamily(name, text, labels=OWNED)
        for key, sums in queues.items():
            gauge.add_metric([*key], sums[place])
        yield gauge
    kv = GaugeMetricFamily("berth_kv_free_ratio", "Free share of the KV blocks (0 to 1).", labels=OWNED)
    restarts = GaugeMetricFamily("berth_replica_restarts", "Crash restarts of the replicas that live.", labels=OWNED)
    for key, sums in queues.items():
        restarts.add_metric([*key], sums[4])
        if sums[3]:
            kv.add_metric([*key], sums[2] / sums[3])
    yield kv
    yield restarts


def _nodes() -> Iterator[Metric]:
    now = timezone.now()
    seen = GaugeMetricFamily("berth_node_last_seen_seconds", "Since a node's agent spoke.", labels=["node"])
    cordoned = GaugeMetricFamily("berth_node_cordoned", "Whether a node takes no new replica.", labels=["node"])
    for node in Node.objects.all():
        cordoned.add_metric([node.name], float(node.cordoned))
        if node.last_seen_at is not None:
            seen.add_metric([node.name], max(0.0, (now - node.last_seen_at).total_seconds()))
    yield seen
    yield cordoned


def _devices() -> Iterator[Metric]:
    labels = ["node", "device"]
    promised = dict(Seat.objects.values_list("slice__gpu_id").annotate(Sum("memory_bytes")).order_by())
    units = dict(SliceUnit.objects.values_list("gpu_id").annotate(Count("id")).order_by())
    rows = list(Gpu.objects.filter(present=True).select_related("node"))
    figures: tuple[tuple[str, str, Callable[[Gpu], float | None]], ...] = (
        ("berth_device_memory_bytes", "Memory of a device.", lambda gpu: gpu.memory_bytes),
        ("berth_device_memory_used_bytes", "Memory in use.", lambda gpu: gpu.memory_used_bytes),
        ("berth_device_memory_promised_bytes", "Memory reserved.", lambda gpu: promised.get(gpu.id, 0)),
        ("berth_device_utilisation_ratio", "Share of time in which it worked (0 to 1).", lambda gpu: gpu.utilisation),
        ("berth_device_temperature_celsius", "Temperature.", lambda gpu: gpu.temperature_c),
        ("berth_device_power_watts", "Power drawn.", lambda gpu: gpu.power_w),
        ("berth_device_units", "Shares that it can be cut into.", lambda gpu: gpu.units),
        ("berth_device_units_used", "Shares that have an owner.", lambda gpu: units.get(gpu.id, 0)),
    )
    for name, text, of in figures:
        family = GaugeMetricFamily(name, text, labels=labels)
        for gpu in rows:
            if (value := of(gpu)) is not None:
                family.add_metric([gpu.node.name, gpu.label], value)
        yield family
    states = GaugeMetricFamily("berth_devices", "Devices that are there, by health.", labels=["node", "state"])
    counts = Counter((gpu.node.name, gpu.health) for gpu in rows)
    for node in sorted({gpu.node.name for gpu in rows}):
        for state in Health.values:
            states.add_metric([node, state], counts[node, state])
    yield states


def _classes() -> Iterator[Metric]:
    text = "The share of requests that a service class promises to be good."
    family = GaugeMetricFamily("berth_class_attainment_target_ratio", text, labels=["class"])
    for name, target in ServiceClass.objects.values_list("name", "attainment_target"):
        family.add_metric([name], target)
    yield family


def _alerts() -> Iterator[Metric]:
    family = GaugeMetricFamily("berth_alerts_firing", "Alerts of Berth's own that fire.", labels=["rule"])
    firing = Alert.objects.for_platform().filter(state=State.FIRING)
    for rule, count in firing.values_list("rule").annotate(Count("id")).order_by():
        family.add_metric([rule], count)
    yield family
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING).count()
    yield _gauge("berth_alert_deliveries_waiting", "Messages of alerts that have not arrived yet.", waiting)


# --- Redis ------------------------------------------------------------------------------------------------------


def _streams() -> Iterator[Metric]:
    with redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, decode_responses=True
    ) as client:
        answers: Any = client
        seconds, micros = answers.time()
        waiting = GaugeMetricFamily("berth_ledger_waiting", "Entries that are not booked yet.", labels=["stream"])
        lag = GaugeMetricFamily("berth_ledger_lag_seconds", "Age of the oldest entry not booked.", labels=["stream"])
        for label, stream in (("usage", names.USAGE_STREAM), ("ended", names.ENDED_STREAM)):
            waiting.add_metric([label], answers.xlen(stream))
            oldest = answers.xrange(stream, count=1)
            age = int(seconds) + int(micros) / 1e6 - int(oldest[0][0].partition("-")[0]) / 1000 if oldest else 0.0
            lag.add_metric([label], max(0.0, age))
        yield waiting
        yield lag
        yield _gauge("berth_requests_open", "Requests that gateways have opened.", answers.scard(names.OPEN_REQUESTS))
        yield _gauge("berth_tasks_waiting", "Messages of the scheduler's queue.", answers.llen("scheduler"))
        watch = json.loads(answers.get(names.WATCH) or "{}")
        if ticked := watch.get("ticked_at"):
            now = int(seconds) + int(micros) / 1e6
            yield _gauge("berth_scheduler_tick_age_seconds", "Since the scheduler looked.", max(0.0, now - ticked))
