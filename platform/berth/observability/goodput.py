"""Goodput for Prometheus: what the aggregator adds up, by tenant, deployment and class.

Counters, so that Prometheus makes any span of time of them, and eta and its factors are ratios of their rates. Only
the process that leads counts, from the entries that arrive while it does: sums over instances are right. A cell whose
tenant or deployment is gone is no longer shown.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.metering.cells import CellKey
from gpuruntime.goodput import Histogram, Window

REQUESTS = ["tenant", "deployment", "class"]
DEVICES = ["tenant", "deployment"]
# More cells than any one Prometheus should be asked to keep: the rest are added up under one name.
MOST_CELLS = 2000
OTHER = "(other)"
TTFT_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
TPOT_S = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_BUCKET_LOG = math.log(1.02)

_COUNTS = (
    ("berth_requests_offered", "offered", "Requests that count: the denominator of attainment."),
    ("berth_requests_good", "good", "Requests that met their service level."),
    ("berth_requests_compatible", "compatible", "Completed within TTFT and mean TPOT: other tools' verdict."),
    ("berth_tokens", "tokens", "Tokens delivered."),
    ("berth_good_tokens", "good_tokens", "Tokens delivered by good requests."),
    ("berth_prompt_tokens", "prompt_tokens", "Tokens of prompts."),
    ("berth_cached_tokens", "cached_tokens", "Tokens of prompts found in a prefix cache."),
    ("berth_stalls", "stalls", "Pauses of over a second between two tokens."),
)
_SECONDS = (
    ("berth_provisioned_device_seconds", "provisioned_s", "Device-seconds reserved, whatever was done with them."),
    ("berth_busy_device_seconds", "busy_s", "Device-seconds in which an engine worked."),
    ("berth_executed_ideal_seconds", "executed_ideal_s", "Roofline time of the executed work."),
    ("berth_delivered_ideal_seconds", "delivered_ideal_s", "Roofline time of what clients received."),
    ("berth_good_ideal_seconds", "good_ideal_s", "Roofline time of good requests."),
)
_NOT_OFFERED = (("over_quota", "over_quota"), ("invalid", "invalid"), ("left_early", "left_early"))


@dataclass(frozen=True, slots=True)
class Names:
    """What ids are called now: slugs of tenants, names of deployments."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    deployments: Mapping[str, str] = field(default_factory=dict)


class GoodputMeter(Collector):
    """``add`` from the aggregator's thread, ``collect`` from a scrape's."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._cells: dict[CellKey, Window] = {}

    def add(self, cells: Mapping[CellKey, Window]) -> None:
        with self._lock:
            for key, window in cells.items():
                whole = CellKey(key.tenant_id, key.deployment_id, key.class_name)
                held = self._cells.get(whole)
                if held is None:
                    held = self._cells[whole] = Window()
                held.merge(window)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            cells, held = self._named(), len(self._cells)
        yield from _counters(_COUNTS, REQUESTS, cells)
        yield from _counters(_SECONDS, DEVICES, _added(cells))
        yield _reasons(cells)
        yield _not_offered(cells)
        yield _histogram("berth_ttft_seconds", "From a request's arrival to its first token.", TTFT_S, "ttft", cells)
        yield _histogram("berth_tpot_seconds", "Mean time per token after the first.", TPOT_S, "tpot", cells)
        gauge = GaugeMetricFamily("berth_goodput_cells", "Cells of tenant, deployment and class that are counted.")
        gauge.add_metric([], held)
        yield gauge

    def _named(self) -> dict[tuple[str, ...], Window]:
        """By names; cells of what is gone are dropped, those over the bound are added up."""
        names = self._names()
        gone = [
            key
            for key in self._cells
            if key.tenant_id not in names.tenants or (key.deployment_id and key.deployment_id not in names.deployments)
        ]
        if names.tenants:  # before the first look nothing is known to be gone
            for key in gone:
                del self._cells[key]
        found: dict[tuple[str, ...], Window] = {}
        for key, window in self._cells.items():
            tenant, deployment = names.tenants.get(key.tenant_id), names.deployments.get(key.deployment_id, "")
            labels: tuple[str, ...] = (tenant or OTHER, deployment, key.class_name)
            if labels not in found and len(found) >= MOST_CELLS:
                labels = (OTHER, OTHER, OTHER)
            found.setdefault(labels, Window()).merge(window)
        return found


def _added(cells: Mapping[tuple[str, ...], Window]) -> dict[tuple[str, ...], Window]:
    """Over the classes: a device's time has none, a request's ideal time has."""
    found: dict[tuple[str, ...], Window] = {}
    for (tenant, deployment, _), window in cells.items():
        if deployment:
            found.setdefault((tenant, deployment), Window()).merge(window)
    return found


def _counters(
    families: Iterable[tuple[str, str, str]], labels: list[str], cells: Mapping[tuple[str, ...], Window]
) -> Iterator[Metric]:
    for name, what, text in families:
        family = CounterMetricFamily(name, text, labels=labels)
        for values, window in cells.items():
            if len(labels) == 2 or values[2]:
                family.add_metric(list(values), getattr(window, what))
        yield family


def _reasons(cells: Mapping[tuple[str, ...], Window]) -> Metric:
    text = "Requests that were offered and not good, by their one reason."
    family = CounterMetricFamily("berth_requests_late", text, labels=[*REQUESTS, "reason"])
    for labels, window in cells.items():
        for reason, count in window.reasons.items():
            family.add_metric([*labels, reason], count)
    return family


def _not_offered(cells: Mapping[tuple[str, ...], Window]) -> Metric:
    text = "Requests that do not count: over the tenant's own contract, malformed, or left before the deadline."
    family = CounterMetricFamily("berth_requests_not_offered", text, labels=[*REQUESTS, "why"])
    for labels, window in cells.items():
        for why, what in _NOT_OFFERED:
            if count := getattr(window, what):
                family.add_metric([*labels, why], count)
    return family


def _histogram(
    name: str, text: str, edges_s: tuple[float, ...], what: str, cells: Mapping[tuple[str, ...], Window]
) -> Metric:
    """Prometheus' coarse buckets from the fine ones; a fine bucket counts where its middle lies."""
    family = HistogramMetricFamily(name, text, labels=REQUESTS)
    for labels, window in cells.items():
        fine: Histogram = getattr(window, what)
        if not fine.counts:
            continue
        counts, total_s = [0] * (len(edges_s) + 1), 0.0
        for bucket, count in fine.counts.items():
            middle_s = 0.0 if bucket == 0 else math.exp((bucket - 0.5) * _BUCKET_LOG) / 1e6
            counts[sum(edge < middle_s for edge in edges_s)] += count
            total_s += middle_s * count
        bounds = [*(str(float(edge)) for edge in edges_s), "+Inf"]
        family.add_metric(list(labels), list(zip(bounds, accumulate(counts), strict=True)), total_s)
    return family
