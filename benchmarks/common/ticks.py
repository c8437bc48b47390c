"""The scheduler's whole tick over a database of many GPUs and deployments: reading, planning, writing."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.common.house import database, listed_model

KINDS = ["whole", "mig", "mps", "time-slice"]
OWNERS = 20
ROUNDS = 5


def measured(gpus: int, deployments: int, a_node: int, board_key: str) -> dict[str, Any]:
    """Seconds of one tick when all is in its place, and of all ticks together that placed everything."""
    with database():
        from scheduler import tasks

        _fill(gpus, deployments, a_node, board_key)
        began = time.perf_counter()
        while _running() < deployments:  # a tick acts within its lease, and the next goes on
            tasks.tick(_heard())
        first_s = time.perf_counter() - began
        _all_ready()
        took, actions = [], 0
        for _ in range(ROUNDS):
            now = _heard()
            began = time.perf_counter()
            actions += len(tasks.tick(now))
            took.append(time.perf_counter() - began)
        return {"took_s": took, "first_s": first_s, "actions": actions, "replicas": _running()}


def _fill(gpus: int, deployments: int, a_node: int, board_key: str) -> None:
    from berth.deployments.models import Deployment
    from berth.fleet.models import Gpu, Node
    from berth.slas.models import Contract
    from berth.slas.services import create_class
    from berth.tenants.models import Tenant
    from scheduler.geometry.boards import board

    kind = board(board_key)
    nodes = [Node(name=f"node-{n:03}", token_digest="", provider="simulated") for n in range(-(-gpus // a_node))]
    Node.objects.bulk_create(nodes)
    Gpu.objects.bulk_create(
        Gpu(
            node=nodes[n // a_node], index=n % a_node, uuid=f"SIM-{n}", name=kind.name, kind="simulated",
            memory_bytes=kind.memory_bytes, units=kind.units, board=board_key, kinds=KINDS,
        )
        for n in range(gpus)
    )  # fmt: skip
    owners = [Tenant(name=f"tenant-{n}", slug=f"tenant-{n}") for n in range(OWNERS)]
    Tenant.objects.bulk_create(owners)
    own = create_class(name="mig", isolation="mig", base_ms=1000, tpot_ms=100, actor="benchmark")
    model = listed_model()
    rows = [
        Deployment(tenant=owners[n % OWNERS], name=f"deployment-{n}", model=model, service_class=own)
        for n in range(deployments)
    ]
    Deployment.objects.bulk_create(rows)
    Contract.objects.bulk_create(
        Contract(
            tenant=row.tenant, deployment=row, service_class=own, terms=own.terms(),
            guaranteed_tokens_per_min=100_000 * (1 + n % 7),
        )
        for n, row in enumerate(rows)
    )  # fmt: skip


def _heard() -> float:
    """Every node reports; the time of the tick."""
    import redis
    from django.conf import settings

    from berth.deployments.models import Replica
    from berth.fleet.models import Node
    from berth.live import names

    now = time.time()
    Node.objects.update(last_seen_at=datetime.fromtimestamp(now, UTC))
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for name in Replica.objects.for_platform().values_list("id", flat=True):
            client.set(names.alive(name), "1", ex=60)
    return now


def _all_ready() -> None:
    from django.db import connection
    from django.db.models import F

    from berth.deployments.models import Replica
    from berth.fleet.models import Node

    Replica.objects.for_platform().update(state="ready", reason="")
    Node.objects.update(observed_generation=F("generation"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _running() -> int:
    from berth.fleet.models import Seat

    return int(Seat.objects.count())
