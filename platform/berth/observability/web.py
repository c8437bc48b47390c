"""The registry of a web or gateway process: what it has, it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from berth.observability.gateway import GatewayCollector
from berth.observability.platform import PlatformCollector as BerthCollector

if TYPE_CHECKING:
    from berth.gateway.app import Gateway
    from berth.metering.aggregator import Aggregator


def registry_of(gateway: Gateway | None, aggregator: Aggregator | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    if gateway is not None:
        registry.register(GatewayCollector(gateway))
    if aggregator is not None:
        leader = aggregator
        registry.register(BerthCollector(lambda: leader.leading, aggregator.names))
        registry.register(aggregator.meter)
    return registry
