"""One Berth for all end-to-end tests, as ``make run`` starts it; and two tenants beside the demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from helpers.cluster import DEPLOYMENT, Cluster, Person, running_cluster
from helpers.collector import Collector
from helpers.console import SHOTS
from helpers.http_servers import serving


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/e2e/" in str(item.path):
            item.add_marker(pytest.mark.e2e)
            if SHOTS:  # taking them costs more than the journey
                item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Where the cluster's traces go."""
    with serving(Collector()) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(collector: Collector) -> Iterator[Cluster]:
    with running_cluster(BERTH_OTLP_ENDPOINT=collector.url) as running:
        yield running


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Person:
    return cluster.operator()


@dataclass(frozen=True)
class Demo:
    tenant_id: str
    deployment_id: str
    key_id: str
    key: str


@pytest.fixture(scope="session")
def demo(cluster: Cluster, operator: Person) -> Demo:
    """The tenant, deployment and a fresh key that the first start made."""
    tenant = next(t for t in operator.get("tenants")["results"] if t["slug"] == "demo")
    deployments = operator.get(f"deployments?tenant={tenant['id']}")["results"]
    made = operator.post("keys", {"tenant": tenant["id"], "name": "end to end"})
    return Demo(
        tenant_id=tenant["id"],
        deployment_id=next(d["id"] for d in deployments if d["name"] == DEPLOYMENT),
        key_id=made["key"]["id"],
        key=made["token"],
    )
