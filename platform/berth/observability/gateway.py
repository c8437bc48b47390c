"""What one gateway counts, read from it when scraped: serving pays for a few additions a request and no lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from berth.gateway.app import Gateway


class GatewayCollector(Collector):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        gateway = self._gateway
        if not hasattr(gateway, "accounts"):  # it has not started
            return
        outcomes = CounterMetricFamily(
            "berth_gateway_requests", "Requests that were let in or refused by a limit, by outcome.", labels=["outcome"]
        )
        for outcome, count in list(gateway.accounts.outcomes.items()):
            outcomes.add_metric([outcome], count)
        yield outcomes
        refused = CounterMetricFamily(
            "berth_gateway_refusals", "Requests turned down before any door was asked, by error code.", labels=["code"]
        )
        for code, count in list(gateway.refused.items()):
            refused.add_metric([code], count)
        yield refused
        limits = CounterMetricFamily(
            "berth_admission_refusals", "Requests over a limit, by whose and by what limit.", labels=["holder", "limit"]
        )
        for labels, count in list(gateway.admission.refused.items()):
            limits.add_metric(labels, count)
        yield limits
        uncounted = CounterMetricFamily(
            "berth_admission_uncounted", "Requests that came while limits could not be counted.", labels=["decision"]
        )
        for decision, count in list(gateway.admission.uncounted.items()):
            uncounted.add_metric([decision], count)
        yield uncounted
        text = "Answers that another replica went on with, once each time."
        resumed = CounterMetricFamily("berth_gateway_resumed_answers", text)
        resumed.add_metric([], gateway.resumed)
        yield resumed
        ignored = CounterMetricFamily("berth_gateway_ignored_fields", "Fields of bodies that nobody here knows.")
        ignored.add_metric([], sum(gateway.ignored.values()))
        yield ignored
        yield from self._gauges(gateway)

    def _gauges(self, gateway: Gateway) -> Iterator[Metric]:
        doors = GaugeMetricFamily(
            "berth_gateway_doors", "Doors this gateway knows, by whether they answer.", labels=["up"]
        )
        ups = gateway.replicas.counts()
        doors.add_metric(["true"], ups[0])
        doors.add_metric(["false"], ups[1])
        yield doors
        for name, text, value in (
            ("berth_gateway_open_requests", "Requests in flight.", len(gateway.open)),
            (
                "berth_gateway_unsettled_records",
                "Ended requests that Redis does not have yet.",
                gateway.accounts.undelivered,
            ),
            (
                "berth_gateway_snapshot_version",
                "Version of the configuration it serves by.",
                gateway.keeper.current.version,
            ),
        ):
            family = GaugeMetricFamily(name, text)
            family.add_metric([], value)
            yield family
