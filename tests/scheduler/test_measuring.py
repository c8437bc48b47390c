"""What is noted of a replica: its own newest run, on a GPU that is cut, and nothing of simulated ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from berth.deployments.models import Deployment
from berth.deployments.replicas import create_replica
from berth.fleet.seats import reserve_seat
from berth.live import names
from berth.plans.measured import measurements, precision_of
from gpuruntime import protocol
from gpuruntime.protocol import Pace
from helpers.factories import cut_device, make_deployment, make_node
from helpers.fleets import H100, mig
from scheduler.measuring import measure_now
from scheduler.world import Place

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def seated(start: int = 0, **values: str) -> tuple[Deployment, str]:
    """A replica in an instance of one slice."""
    deployment = make_deployment()
    gpu = make_node(None, cut_device(H100, **values)).gpus.get()
    replica = create_replica(deployment=deployment, reason="test")
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=1 << 30, place=Place(mig("1g.10gb"), start))
    return deployment, replica.id


def tell(store: redis.Redis, replica: str, epoch: str = "e1", said: str | None = None, tokens: int = 900) -> None:
    hello = protocol.RuntimeHello(
        replica_id=replica, epoch=said or epoch, engine="native", model="m", max_model_len=8, max_num_seqs=8,
        weights_bytes=1000,
    )  # fmt: skip
    stats = protocol.Stats(
        replica_id=replica, epoch=epoch, state="ready", running=1, queued=0, memory_bytes=1 << 29,
        paces=[protocol.Pace(8, 300, 30.0, tokens)],
    )  # fmt: skip
    store.set(names.hello(replica), protocol.encode(hello), ex=60)
    store.set(names.stats(replica), protocol.encode(stats), ex=60)


def test_the_totals_of_a_replica_on_a_gpu_are_noted_and_noted_again(liveness: redis.Redis) -> None:
    deployment, replica = seated()
    tell(liveness, replica)
    measure_now(NOON)
    tell(liveness, replica, tokens=1000)
    measure_now(NOON)
    seen = measurements()[precision_of(deployment)]
    assert seen.paces == {mig("1g.10gb"): (Pace(8, 300, 30.0, 1000),)}
    assert (seen.weights_bytes, seen.kv_bytes, seen.memory_bytes) == (1000, deployment.kv_bytes, 1 << 29)


def test_a_replica_that_started_again_counts_beside_what_it_was(liveness: redis.Redis) -> None:
    deployment, replica = seated()
    for epoch in ("e1", "e2"):
        tell(liveness, replica, epoch)
        measure_now(NOON)
    assert measurements()[precision_of(deployment)].paces == {mig("1g.10gb"): (Pace(8, 600, 60.0, 1800),)}


def test_who_says_nothing_or_is_about_to_change_is_left_out(liveness: redis.Redis) -> None:
    seated()
    _, between = seated()
    tell(liveness, between, "e2", said="e1")
    measure_now(NOON)
    assert measurements() == {}


def test_simulated_devices_measure_nothing(liveness: redis.Redis) -> None:
    _, replica = seated(kind="simulated")
    tell(liveness, replica)
    measure_now(NOON)
    assert measurements() == {}


def test_without_redis_nothing_is_noted(settings: pytest.FixtureRequest) -> None:
    seated()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # type: ignore[attr-defined]
    measure_now(NOON)
    assert measurements() == {}
