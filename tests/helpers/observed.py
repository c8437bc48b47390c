"""What every process of a house that has something to tell exports, as text: for tests of dashboards and rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from prometheus_client import CollectorRegistry

from scheduler.metrics_port import render


class _Undone(Exception):
    """Ends a transaction without a trace."""


def full_registries() -> Iterator[str]:
    """Web and gateway, and the agent. Rows are made, read and undone."""
    texts: list[str] = []
    try:
        with transaction.atomic():
            texts.append(_web())
            raise _Undone
    except _Undone:
        pass
    yield from [*texts, _agent()]


def _web() -> str:
    from berth.alerts.models import Alert
    from berth.deployments.models import Replica, ReplicaState
    from berth.deployments.replicas import create_replica
    from berth.fleet.models import Gpu
    from berth.fleet.seats import reserve_seat
    from berth.live import names
    from berth.observability.web import registry_of
    from helpers.factories import GIB, make_deployment, make_gpu

    deployment = make_deployment()
    replica = create_replica(deployment=deployment, reason="")
    gpu = make_gpu(temperature_c=50.0, power_w=100.0, utilisation=0.5)
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=GIB)
    Gpu.objects.filter(id=gpu.id).update(temperature_c=50.0, power_w=100.0, utilisation=0.5)
    Replica.objects.for_platform().filter(id=replica.id).update(state=ReplicaState.READY)
    now = timezone.now()
    Alert.objects.create(
        rule="node.lost", severity="critical", state="firing", subject="x", subject_kind="node", subject_id="x",
        subject_name="x", summary="x", since=now, seen_at=now,
    )  # fmt: skip
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        stats = {"running": 1, "queued": 1, "kv_free_blocks": 1, "kv_total_blocks": 2}
        client.set(names.alive(replica.id), "e", ex=10)
        client.set(names.stats(replica.id), json.dumps(stats), ex=10)
        client.set(names.WATCH, json.dumps({"ticked_at": now.timestamp()}), ex=10)
    return render(registry_of(_gateway(), _aggregator(deployment))).decode()


def _gateway() -> Any:
    counted = Counter({"x": 1})
    return SimpleNamespace(
        accounts=SimpleNamespace(outcomes=counted, undelivered=0),
        admission=SimpleNamespace(refused=Counter({("key", "tokens"): 1}), uncounted=counted),
        replicas=SimpleNamespace(counts=lambda: (1, 0)),
        keeper=SimpleNamespace(current=SimpleNamespace(version=1)),
        refused=counted,
        resumed=1,
        ignored=counted,
        open={},
    )


def _aggregator(deployment: Any) -> Any:
    from berth.metering.cells import CellKey
    from berth.observability.goodput import GoodputMeter
    from berth.observability.names import NameBook
    from gpuruntime.goodput import Window

    book = NameBook()
    meter = GoodputMeter(book.current)
    window = Window(offered=2, good=1, over_quota=1)
    window.reasons["prefill"] = 1
    window.ttft.add(1000)
    window.tpot.add(1000)
    meter.add({CellKey(deployment.tenant_id, deployment.id, "chat"): window})
    return SimpleNamespace(leading=True, names=book, meter=meter)


def _agent() -> str:
    from gpuruntime.protocol import ObservedReplica
    from scheduler.node.metrics import AgentCollector
    from scheduler.node.providers.cpu import CpuProvider

    supervisor = SimpleNamespace(
        generation=1, observed=lambda: [ObservedReplica(replica_id="r", state="ready")], residents=tuple
    )
    registry = CollectorRegistry()
    agent: Any = SimpleNamespace(connected=True, connections=1)
    registry.register(AgentCollector("n", agent, CpuProvider(node="n", shares=4), supervisor))  # type: ignore[arg-type]
    return render(registry).decode()
