"""What each process tells Prometheus, through real HTTP, and that its labels stay bounded."""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
import redis.asyncio
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from berth.metering.cells import CellKey
from berth.observability import endpoint
from berth.observability.endpoint import MetricsApp
from berth.observability.goodput import MOST_CELLS, OTHER, GoodputMeter, Names
from berth.observability.names import NameBook
from berth.observability.platform import PlatformCollector
from gpuruntime.goodput import Histogram, Window
from helpers.factories import GIB, make_deployment, make_gpu
from scheduler.metrics_port import BadAddress, MetricsPort, parse_address, render

FORBIDDEN_LABELS = {"key", "key_id", "request", "request_id", "user", "email", "prompt", "token"}


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def rendered(*collectors: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return samples(render(registry).decode())


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name.rstrip("_"), value) for name, value in values.items()))


# --- goodput ----------------------------------------------------------------------------------------------------


def a_window(**values: Any) -> Window:
    window = Window(**values)
    window.reasons["prefill"] = 2
    window.ttft = Histogram()
    for ms in (80, 80, 400, 9000):
        window.ttft.add(ms * 1000)
    return window


def test_goodput_is_counted_by_tenant_deployment_and_class() -> None:
    meter = GoodputMeter(lambda: Names({"ten_1": "acme"}, {"dep_1": "chat-small"}))
    cell = CellKey("ten_1", "dep_1", "chat")
    for _ in range(2):
        meter.add({cell: a_window(offered=10, good=8, tokens=50, good_tokens=40, good_ideal_s=0.5)})
    meter.add({CellKey("ten_1", "dep_1", "", "rep_1"): Window(provisioned_s=4.0, busy_s=2.0)})
    found = rendered(meter)
    at = labels(tenant="acme", deployment="chat-small", class_="chat")
    assert found["berth_requests_offered_total", at] == 20
    assert found["berth_requests_good_total", at] == 16
    assert found["berth_good_tokens_total", at] == 80
    assert found["berth_requests_late_total", tuple(sorted([*at, ("reason", "prefill")]))] == 4
    device = labels(tenant="acme", deployment="chat-small")
    assert found["berth_provisioned_device_seconds_total", device] == 4.0
    assert found["berth_good_ideal_seconds_total", device] == 1.0
    bucket = {dict(at_)["le"]: value for (name, at_), value in found.items() if name == "berth_ttft_seconds_bucket"}
    assert (bucket["0.05"], bucket["0.1"], bucket["0.5"], bucket["10.0"], bucket["+Inf"]) == (0, 4, 6, 8, 8)
    total = found["berth_ttft_seconds_sum", at]
    assert total == pytest.approx(2 * (0.08 + 0.08 + 0.4 + 9.0), rel=0.02)


def test_no_class_no_series_of_requests_and_no_replica_in_a_label() -> None:
    meter = GoodputMeter(lambda: Names({"ten_1": "acme"}, {"dep_1": "chat"}))
    meter.add({CellKey("ten_1", "dep_1", "", "rep_1"): Window(busy_s=1)})
    found = rendered(meter)
    assert not [name for name, _ in found if name == "berth_requests_offered_total"]
    assert all("rep_1" not in value for _, at in found for _, value in at)


def test_cells_are_bounded_and_what_is_gone_is_forgotten() -> None:
    names = Names({f"ten_{n}": f"t{n}" for n in range(MOST_CELLS + 50)}, {"dep_1": "chat"})
    held = {"names": names}
    meter = GoodputMeter(lambda: held["names"])
    meter.add({CellKey(tenant, "dep_1", "chat"): Window(offered=1) for tenant in names.tenants})
    offered = {at: value for (name, at), value in rendered(meter).items() if name == "berth_requests_offered_total"}
    assert len(offered) == MOST_CELLS + 1
    assert offered[labels(tenant=OTHER, deployment=OTHER, class_=OTHER)] == 50
    assert sum(offered.values()) == MOST_CELLS + 50
    held["names"] = Names({"ten_1": "t1"}, {"dep_1": "chat"})
    found = rendered(meter)
    assert found["berth_goodput_cells", ()] == 1
    assert [value for (name, _), value in found.items() if name == "berth_requests_offered_total"] == [1]


# --- the platform -----------------------------------------------------------------------------------------------


@pytest.fixture
def quiet_redis() -> Iterator[Any]:
    client = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    client.flushdb()
    yield client
    client.flushdb()


@pytest.mark.django_db
def test_the_platform_is_told_by_the_leader_alone(quiet_redis: Any) -> None:
    from berth.deployments.models import Replica, ReplicaState
    from berth.deployments.replicas import create_replica
    from berth.fleet.seats import reserve_seat
    from berth.live import names as redis_names

    deployment = make_deployment(replica_count=2)
    replica = create_replica(deployment=deployment, reason="")
    gpu = make_gpu()
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=GIB)
    Replica.objects.for_platform().filter(id=replica.id).update(state=ReplicaState.READY, restarts=2)
    stats = {"running": 3, "queued": 4, "kv_free_blocks": 25, "kv_total_blocks": 100}
    quiet_redis.set(redis_names.alive(replica.id), "e")
    quiet_redis.set(redis_names.stats(replica.id), json.dumps(stats))
    quiet_redis.xadd(redis_names.USAGE_STREAM, {"record": "x"})

    assert rendered(PlatformCollector(lambda: False, NameBook())) == {("berth_leader", ()): 0.0}
    with CaptureQueriesContext(connection) as few:
        found = rendered(PlatformCollector(lambda: True, NameBook()))
    at = labels(tenant=deployment.tenant.slug, deployment=deployment.name)
    assert found["berth_replicas_wanted", at] == 2
    assert found["berth_replicas", tuple(sorted([*at, ("state", "ready")]))] == 1
    assert found["berth_replicas", tuple(sorted([*at, ("state", "placing")]))] == 0
    assert found["berth_requests_running", at] == 3
    assert found["berth_requests_queued", at] == 4
    assert found["berth_kv_free_ratio", at] == 0.25
    assert found["berth_replica_restarts", at] == 2
    device = labels(node=gpu.node.name, device="cpu-0")
    assert found["berth_device_memory_promised_bytes", device] == GIB
    assert found["berth_devices", labels(node=gpu.node.name, state="healthy")] == 1
    assert found["berth_devices", labels(node=gpu.node.name, state="fenced")] == 0
    assert 0 <= found["berth_node_last_seen_seconds", labels(node=gpu.node.name)] < 60
    assert found["berth_ledger_waiting", labels(stream="usage")] == 1
    assert found["berth_database_up", ()] == found["berth_redis_up", ()] == 1
    for _ in range(5):
        make_deployment(tenant=deployment.tenant)
    with CaptureQueriesContext(connection) as many:
        rendered(PlatformCollector(lambda: True, NameBook()))
    assert len(many) == len(few) <= 14


@pytest.mark.django_db
def test_no_label_names_a_key_a_request_or_a_person(quiet_redis: Any) -> None:
    make_deployment()
    meter = GoodputMeter(lambda: Names({"ten_1": "acme"}, {"dep_1": "chat"}))
    meter.add({CellKey("ten_1", "dep_1", "chat"): a_window(offered=1)})
    for _, at in rendered(PlatformCollector(lambda: True, NameBook()), meter):
        assert not FORBIDDEN_LABELS & {name for name, _ in at}
        assert not any(value.startswith(("key_", "req_", "usr_", "rep_")) for _, value in at)


# --- who may read -----------------------------------------------------------------------------------------------


async def status(client: str | None, *headers: tuple[bytes, bytes], method: str = "GET") -> int:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "method": method, "path": "/metrics", "headers": list(headers)}
    scope["client"] = (client, 1234) if client else None
    await MetricsApp(CollectorRegistry())(scope, receive, send)
    return int(sent[0]["status"])


async def test_this_machine_may_read_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await status("127.0.0.1") == 200
    assert await status("::1") == 200
    assert await status("10.0.0.7") == 403
    assert await status(None) == 403
    # A proxy on this host is local too, but whoever is behind it is not.
    assert await status("127.0.0.1", (b"x-forwarded-for", b"203.0.113.9")) == 403
    assert await status("127.0.0.1", method="POST") == 405
    monkeypatch.setattr(endpoint, "CONFIG", dataclasses.replace(endpoint.CONFIG, metrics_token="s3cret"))
    assert await status("127.0.0.1") == 401
    assert await status("10.0.0.7", (b"authorization", b"Bearer wrong")) == 401
    assert await status("10.0.0.7", (b"authorization", b"Bearer s3cret")) == 200


def test_the_small_port_serves_metrics_with_its_token() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    port = MetricsPort(("127.0.0.1", 0), "t", lambda: render(registry))
    port.start()
    try:
        for path, headers, expected in (
            ("/metrics", {}, 401),
            ("/metrics", {"authorization": "Bearer t"}, 200),
            ("/other", {"authorization": "Bearer t"}, 404),
        ):
            link = http.client.HTTPConnection("127.0.0.1", port.server_port, timeout=5)
            link.request("GET", path, headers=headers)
            answer = link.getresponse()
            body = answer.read().decode()
            assert answer.status == expected
            link.close()
            if expected == 200:
                assert samples(body)["things_total", ()] == 3
    finally:
        port.stop()


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9101", ("127.0.0.1", 9101)), ("[::1]:9101", ("::1", 9101)), ("9101", ("127.0.0.1", 9101))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:port", "host:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_address(text)


def test_processes_that_share_a_folder_are_added_up(tmp_path: Path) -> None:
    """A worker that forks: each process counts in files of its own."""
    program = (
        "from prometheus_client import CollectorRegistry, Counter; import sys;"
        "Counter('things', 'Things.', registry=CollectorRegistry()).inc(2);"
        "from scheduler.metrics_port import render;"
        "sys.stdout.write(render(CollectorRegistry()).decode())"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    for expected in (2, 4):
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert samples(run.stdout)["things_total", ()] == expected


# --- a gateway --------------------------------------------------------------------------------------------------


async def test_a_gateway_counts_outcomes_and_refusals(redis_url: str) -> None:
    from berth.gateway.snapshot import Limits
    from berth.observability.gateway import GatewayCollector
    from helpers.gateway import chat, make_key, make_snapshot, running_gateway
    from helpers.stub_door import stub_doors

    async with redis.asyncio.from_url(redis_url) as counters:
        await counters.flushdb()  # another test's requests of the same tenant count for a minute
    key, token = make_key()
    async with stub_doors(1) as doors:
        snapshot = make_snapshot([doors[0].url], key, Limits(requests_per_min=2))
        async with running_gateway(snapshot, token, redis_url) as running:
            statuses = []
            for _ in range(3):
                async with running.post(chat()) as answer:
                    await answer.read()
                    statuses.append(answer.status)
            async with aiohttp.ClientSession() as http_, http_.post(f"{running.base}/v1/chat/completions") as answer:
                assert answer.status == 401
            await asyncio.sleep(0.05)
            found = rendered(GatewayCollector(running.gateway))
    assert statuses == [200, 200, 429]
    assert found["berth_gateway_requests_total", labels(outcome="completed")] == 2
    assert found["berth_gateway_requests_total", labels(outcome="over_quota")] == 1
    assert found["berth_admission_refusals_total", labels(holder="contract", limit="requests")] == 1
    assert found["berth_gateway_refusals_total", labels(code="missing_api_key")] == 1
    assert found["berth_gateway_doors", labels(up="true")] == 1
    assert found["berth_gateway_open_requests", ()] == 0


# --- the agent --------------------------------------------------------------------------------------------------


def test_an_agent_tells_of_its_node(tmp_path: Path) -> None:
    from scheduler.node.metrics import AgentCollector
    from scheduler.node.modelcache import ModelCache
    from scheduler.node.paths import StateDir
    from scheduler.node.providers.cpu import CpuProvider
    from scheduler.node.replica import RuntimeSettings
    from scheduler.node.supervisor import Supervisor

    state = StateDir(tmp_path)
    state.create()
    supervisor = Supervisor(
        state, ModelCache(state.models, base_url="http://x", headers={}), RuntimeSettings([], "", "127.0.0.1")
    )

    class Agent:
        connected = True
        connections = 2

    found = rendered(AgentCollector("n1", Agent(), CpuProvider(node="n1", shares=4), supervisor))
    assert found["berth_agent_connected", labels(node="n1")] == 1
    assert found["berth_agent_connections_total", labels(node="n1")] == 2
    assert ("berth_agent_device_used_bytes", labels(node="n1", device="cpu-0")) in found
