"""What the agent tells Prometheus: whether it is connected, its replicas by state, its devices and slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.node.providers.base import Provider

if TYPE_CHECKING:
    from scheduler.node.slices.desk import SliceDesk
    from scheduler.node.supervisor import Supervisor


class _Connected(Protocol):
    connected: bool
    connections: int


class AgentCollector(Collector):
    """Read when scraped. ``node`` is the name under which the control plane knows this one."""

    def __init__(
        self, node: str, agent: _Connected, provider: Provider, supervisor: Supervisor, slices: SliceDesk | None = None
    ) -> None:
        self._node = node
        self._agent = agent
        self._provider = provider
        self._supervisor = supervisor
        self._slices = slices

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        gauge, counter = self._gauge, self._counter
        yield gauge("berth_agent_connected", "Whether the control plane is connected.", self._agent.connected)
        yield counter("berth_agent_connections", "Connections that were made.", self._agent.connections)
        yield gauge(
            "berth_agent_generation", "Generation of the desired state it applied.", self._supervisor.generation
        )
        observed = self._supervisor.observed()
        states = GaugeMetricFamily("berth_agent_replicas", "Replicas here, by state.", labels=["node", "state"])
        for state, count in sorted(Counter(replica.state for replica in observed).items()):
            states.add_metric([self._node, state], count)
        yield states
        yield gauge("berth_agent_restarts", "Crash restarts of them.", sum(replica.restarts for replica in observed))
        memory = sum(replica.memory_bytes for replica in observed)
        yield gauge("berth_agent_replica_memory_bytes", "Memory of their processes.", memory)
        used = GaugeMetricFamily("berth_agent_device_used_bytes", "Memory in use.", labels=["node", "device"])
        for device in self._provider.devices(self._supervisor.residents()):
            used.add_metric([self._node, f"{device.kind}-{device.index}"], device.memory_used_bytes)
        yield used
        if self._slices is not None:
            slices = GaugeMetricFamily("berth_agent_slices", "Slices here, by state.", labels=["node", "state"])
            for found, count in sorted(Counter(one.state for one in self._slices.observed()).items()):
                slices.add_metric([self._node, found], count)
            yield slices

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["node"])
        family.add_metric([self._node], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=["node"])
        family.add_metric([self._node], value)
        return family
