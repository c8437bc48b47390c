"""A control plane with a large database and no scheduler: what people click through, and nothing that changes it."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta

from benchmarks.common.children import Server, Turns, free_port
from benchmarks.common.house import SMOL, database
from benchmarks.common.report import REPOSITORY
from benchmarks.console_data import fill

OPERATOR, ADMIN = "operator@example.com", "admin@example.com"
PASSWORD = "correct-horse-battery"
TENANT = "tenant-4"
RECORDS, MODELS = 20_000, 300
NODES, GPUS = 125, 8
GIB = 1 << 30
BOARD, GPU_NAME = "h100-sxm-80gb", "NVIDIA H100 80GB HBM3"
# Of each GPU: profile, first unit, units. The last unit stays free.
PLACES = (("3g.40gb", 0, 4), ("2g.20gb", 4, 2), ("1g.10gb", 6, 1))


@dataclass(frozen=True)
class Console:
    url: str


class Web(Server):
    """Web and gateway in one process, as ``manage.py up`` starts it."""

    def __init__(self) -> None:
        port = free_port()
        super().__init__("console", [sys.executable, REPOSITORY / "manage.py", "serve", "--port", str(port)], port)

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:  # refused, or 503 while it starts
            return False


@contextmanager
def console_house() -> Iterator[Console]:
    """1,000 deployments, 10,000 keys, 300 models and 1,000 GPUs behind a console; one a process."""
    with database(), Turns() as children:
        fill(RECORDS)
        _people()
        _models()
        _fleet()
        web = Web()
        children.start(web)
        yield Console(web.url)


def _people() -> None:
    from berth.tenants.models import Role, Tenant
    from berth.tenants.services import add_member, create_user

    create_user(email=OPERATOR, password=PASSWORD, is_operator=True, actor="benchmark")
    admin = create_user(email=ADMIN, password=PASSWORD, actor="benchmark")
    add_member(tenant=Tenant.objects.get(slug=TENANT), user=admin, role=Role.ADMIN, actor="benchmark")


def _models() -> None:
    from berth.catalog.models import Model, ModelState

    Model.objects.bulk_create(
        Model(
            name=f"model-{i}", source_kind="hub", source=f"models/model-{i}", state=ModelState.READY, progress=1.0,
            architecture="LlamaForCausalLM", parameters=135_000_000 * (1 + i % 60), context_length=8192,
            weights_bytes=270_000_000 * (1 + i % 60), kv_bytes_per_token=23_040, workspace_bytes=64_000_000,
            header=asdict(SMOL),
        )
        for i in range(MODELS)
    )  # fmt: skip


def _fleet() -> None:
    """Each GPU cut in three and each slice taken, by a hundred deployments in turn."""
    from django.utils import timezone

    from berth.decisions.models import Decision
    from berth.deployments.models import Deployment, Replica
    from berth.fleet.models import Gpu, Node, Seat, Slice
    from scheduler.geometry.boards import board

    now = timezone.now()
    # Nobody reports here: seen tomorrow is seen for as long as this runs.
    seen = now + timedelta(days=1)
    nodes = [
        Node(
            name=f"gpu-{i}", provider="nvml", cpu_count=192, memory_bytes=2048 * GIB, fault_domain=f"rack-{i // 5}",
            agent_version="1.0", connected_at=now, last_seen_at=seen,
        )
        for i in range(NODES)
    ]  # fmt: skip
    Node.objects.bulk_create(nodes)
    gpus = [
        Gpu(
            node=node, index=i, uuid=f"GPU-{node.name}-{i}", name=GPU_NAME, kind="cuda", board=BOARD,
            kinds=["whole", "mig", "mps"], units=board(BOARD).units, memory_bytes=80 * GIB,
            memory_used_bytes=(40 + i) * GIB, utilisation=0.1 * i, temperature_c=50.0 + i, power_w=400.0 + 10 * i,
        )
        for node in nodes
        for i in range(GPUS)
    ]  # fmt: skip
    Gpu.objects.bulk_create(gpus)
    slices = [
        Slice(gpu=gpu, kind="mig", profile=profile, start=start, size=size, memory_bytes=10 * size * GIB, state="ready")
        for gpu in gpus
        for profile, start, size in PLACES
    ]
    Slice.objects.bulk_create(slices)
    deployments = list(Deployment.objects.for_platform().order_by("id")[:100])
    replicas = [
        Replica(
            tenant_id=deployments[i % 100].tenant_id, deployment=deployments[i % 100], node=part.gpu.node,
            state="ready", memory_bytes=part.memory_bytes, memory_used_bytes=part.memory_bytes // 2, observed_at=seen,
        )
        for i, part in enumerate(slices)
    ]  # fmt: skip
    Replica.objects.bulk_create(replicas)
    seated = list(zip(slices, replicas, strict=True))
    Seat.objects.bulk_create(
        Seat(slice=part, replica=replica, memory_bytes=part.memory_bytes) for part, replica in seated
    )
    Decision.objects.bulk_create(
        Decision(
            kind="place", replica_id=one.id, deployment_id=one.deployment_id, deployment_name=one.deployment.name,
            summary="placed", why="It is the smallest slice that holds the model.", at=now, last_at=now,
        )
        for one in replicas
    )  # fmt: skip
